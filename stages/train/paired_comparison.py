"""Paired comparisons of two methods: hierarchical bootstrap over seeds and test graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.ragged import Array
from gsx.seeds import rng
from gsx.stages.train.confidence_intervals import LEVEL, resample_counts, resampled_scores
from gsx.stages.train.evaluate import is_classical, load_classical, load_model
from gsx.stages.train.metrics import DIGITS, lower_is_better, score
from gsx.stages.train.predictions import PREDICTIONS, predict_splits, read_labels, require_finite
from gsx.stages.train.result_documents import MODEL_KEYS, require_fields
from gsx.stages.train.results_table import result_files
from gsx.stages.train.stage import WEIGHTS
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_arrays
from gsx.storage.corpora.corpus import Corpus

Resolve = Callable[[str, str], Artifact]
"""From a key and a kind to an artifact."""


@dataclass(frozen=True, slots=True, eq=False)
class PairedRun:
    """Predictions of two methods with one seed for the same test graphs."""

    method: Array
    """``[G, C]`` logits."""
    baseline: Array
    y: Array
    """``[G, C]`` labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Difference of two methods on one dataset."""

    dataset: str
    metric: str
    seeds: int
    method: float
    """Mean score over seeds."""
    baseline: float
    difference: float
    low: float
    """Lower limit of the 95 % percentile interval of the difference."""
    high: float
    p: float
    """Two-sided bootstrap p value of no difference."""
    p_holm: float = 1.0
    """The same, corrected for all datasets (Holm)."""

    @property
    def gain(self) -> tuple[float, float, float]:
        """The difference and its interval, with the sign that makes positive values better."""
        if lower_is_better(self.metric):
            return 0.0 - self.difference, 0.0 - self.high, 0.0 - self.low
        return self.difference, self.low, self.high


def compare_methods(
    folder: Path, method: str, baseline: str, split: str, resolve: Resolve
) -> list[Comparison]:
    """Return the comparison of two methods on every dataset of a folder that has both."""
    runs: dict[tuple[str, str, int], dict[str, Any]] = {}
    for path, document in result_files(folder)[0]:
        if document["method"] not in (method, baseline):
            continue
        if document.get("sealed"):
            raise UsageError(f"{path} is sealed. Run `gsx unseal {folder}` after the last run.")
        require_fields(path, document, *MODEL_KEYS)
        runs[document["dataset"], document["method"], document["seed"]] = document
    for name in (method, baseline):
        if not any(key[1] == name for key in runs):
            names = {document["method"] for _, document in result_files(folder)[0]}
            raise UsageError(f"{folder} has no method `{name}`. {did_you_mean(name, names)}")
    comparisons = []
    for dataset in sorted({key[0] for key in runs}):
        pairs = [
            (document, runs[dataset, baseline, seed])
            for (name, kind, seed), document in sorted(runs.items())
            if name == dataset and kind == method and (dataset, baseline, seed) in runs
        ]
        if pairs:
            comparisons.append(compare_runs(dataset, pairs, split, resolve))
    if not comparisons:
        raise UsageError(
            f"no dataset of {folder} has runs of `{method}` and `{baseline}` with the same seed."
        )
    corrected = holm([row.p for row in comparisons])
    return [replace(row, p_holm=value) for row, value in zip(comparisons, corrected, strict=True)]


def compare_runs(
    dataset: str,
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    split: str,
    resolve: Resolve,
) -> Comparison:
    """Return the comparison of pairs of runs on a split.

    A run has the fields ``seed``, ``model_key``, ``corpus_key`` and ``selection`` of a result file.
    """
    paired = []
    for documents in pairs:
        (info, one, y), (_, other, other_y) = (_predictions(d, split, resolve) for d in documents)
        if y.shape != other_y.shape or not np.array_equal(y, other_y, equal_nan=True):
            raise StageError(
                f"{dataset}, seed {documents[0]['seed']}: the methods have different graphs in "
                f"`{split}`. Compare runs whose corpora have the same source."
            )
        paired.append(PairedRun(one, other, y))
    return paired_bootstrap(dataset, info.metric, info.task, paired)


def _predictions(
    document: Mapping[str, Any], split: str, resolve: Resolve
) -> tuple[Any, Array, Array]:
    """Return the description of the corpus, logits and labels of a split."""
    model = resolve(document["model_key"], "model")
    corpus = Corpus(resolve(document["corpus_key"], "corpus"))
    y = read_labels(corpus, split)
    if PREDICTIONS in model.manifest.files:
        arrays = read_arrays(model.location, PREDICTIONS)
    else:
        cpu, weights = torch.device("cpu"), WEIGHTS[document["selection"]]
        if is_classical(model):
            arrays = predict_splits(load_classical(model, weights), corpus, [split], cpu)
        else:
            arrays = predict_splits(load_model(model, weights, cpu)[1], corpus, [split], cpu)
    if split not in arrays or arrays[split].shape != y.shape:
        raise StageError(
            f"model {model.key[:12]} has no predictions for `{split}` of {corpus.info.name}. "
            "Compare another `--split`."
        )
    return corpus.info, require_finite(arrays[split]), y


def paired_bootstrap(dataset: str, metric: str, task: str, runs: Sequence[PairedRun]) -> Comparison:
    """Return the difference of two methods, with uncertainty of seeds and of test graphs.

    A resample draws graphs with replacement, the same for both methods and for all seeds with the
    same test labels, then seeds with replacement.
    """
    scores = [
        [score(metric, task, logits, run.y) for logits in (run.method, run.baseline)]
        for run in runs
    ]
    if any(value is None for pair in scores for value in pair):
        raise StageError(f"{metric} is undefined on {dataset}: all labels have the same class.")
    means = np.array(scores, dtype=np.float64).mean(axis=0)
    differences = _resampled_differences(dataset, metric, task, runs)
    stream = rng(0, "compare", "seeds", dataset)
    drawn = stream.integers(len(runs), size=differences.T.shape)
    resampled = np.take_along_axis(differences.T, drawn, axis=1).mean(axis=1)
    resampled = resampled[~np.isnan(resampled)]
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    tail = min((resampled <= 0).sum(), (resampled >= 0).sum())
    return Comparison(
        dataset=dataset,
        metric=metric,
        seeds=len(runs),
        method=round(float(means[0]), DIGITS),
        baseline=round(float(means[1]), DIGITS),
        difference=round(float(means[0] - means[1]), DIGITS),
        low=round(float(low), DIGITS),
        high=round(float(high), DIGITS),
        p=round(min(2 * (int(tail) + 1) / (len(resampled) + 1), 1.0), DIGITS),
    )


def _resampled_differences(
    dataset: str, metric: str, task: str, runs: Sequence[PairedRun]
) -> Array:
    """Return the differences ``[S, B]`` of every seed in resamples of the test graphs."""
    groups: dict[bytes, list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run.y.tobytes(), []).append(number)
    rows: list[Array] = [np.zeros(0)] * len(runs)
    for group, members in enumerate(groups.values()):
        blocks: dict[int, list[Array]] = {number: [] for number in members}
        for counts in resample_counts(len(runs[members[0]].y), "compare", dataset, group):
            for number in members:
                run = runs[number]
                one, other = (
                    resampled_scores(metric, task, logits, run.y, counts)
                    for logits in (run.method, run.baseline)
                )
                blocks[number].append(one - other)
        for number in members:
            rows[number] = np.concatenate(blocks[number])
    return np.stack(rows)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for multiple comparisons (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return [round(float(value), DIGITS) for value in corrected]
