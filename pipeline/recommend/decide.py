"""The decision rule: paired differences to `none`, with an interval over seeds and graphs.

A recipe is recommended only if the probability that it is better than no augmentation is at least
1 - 0.05 / F, where F is the number of recipes compared in the deciding phase (Bonferroni). The
probability comes from a hierarchical bootstrap: seeds and validation graphs are resampled together
for both sides of the difference. docs/recommend.md fixes the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gsx.ragged import Array
from gsx.seeds import rng
from gsx.stages.train.confidence_intervals import resampled_scores
from gsx.stages.train.metrics import score

ERROR_RATE = 0.05
"""Probability to recommend a recipe although all of them are no better than `none`."""
RESAMPLES = 1000
LEVEL = 0.95
DIGITS = 4


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Difference of a recipe to `none`; positive is better, also for errors such as RMSE."""

    mean: float
    low: float
    high: float
    """95 % interval."""
    probability: float
    """Share of resamples in which the recipe is better."""


def paired_differences(
    metric: str,
    task: str,
    y: Array,
    runs: Mapping[str, Sequence[Array]],
    baseline: str,
    *stream: str | int,
) -> dict[str, Difference]:
    """Return the difference of every recipe to the baseline.

    ``runs`` has the logits ``[V, C]`` of each recipe, one array per seed. Run s of a recipe is
    compared with run s of the baseline; further runs of either side do not count.
    """
    graphs, sign = len(y), -1.0 if metric == "rmse" else 1.0
    source = rng(*_named(stream))
    drawn = (
        source.integers(graphs, size=(RESAMPLES, graphs)) + np.arange(RESAMPLES)[:, None] * graphs
    )
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * graphs)
    counts = counts.reshape(RESAMPLES, graphs).astype(np.float64)
    seeds = max(map(len, runs.values()))
    draws = source.random((RESAMPLES, seeds))
    resampled = {
        name: np.stack([resampled_scores(metric, task, run, y, counts) for run in arrays], axis=1)
        for name, arrays in runs.items()
        if arrays
    }
    result = {}
    for name, scores in resampled.items():
        if name == baseline:
            continue
        paired = min(scores.shape[1], resampled[baseline].shape[1])
        difference = sign * (scores[:, :paired] - resampled[baseline][:, :paired])
        chosen = (draws[:, :paired] * paired).astype(np.int64)
        values = np.take_along_axis(difference, chosen, axis=1).mean(axis=1)
        values = values[~np.isnan(values)]
        observed = [
            sign * (_score(metric, task, run, y) - _score(metric, task, other, y))
            for run, other in zip(runs[name][:paired], runs[baseline][:paired], strict=True)
        ]
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        # Half of the ties count, so that equal predictions have probability 1/2.
        better = float((values > 0).mean() + (values == 0).mean() / 2)
        result[name] = Difference(
            mean=round(float(np.mean(observed)), DIGITS),
            low=round(float(low), DIGITS),
            high=round(float(high), DIGITS),
            probability=round(better, DIGITS),
        )
    return result


def threshold(compared: int) -> float:
    """Return the probability from which a recipe is recommended, if this many are compared."""
    return 1 - ERROR_RATE / max(compared, 1)


def choose(differences: Mapping[str, Difference], compared: int) -> str | None:
    """Return the recipe to recommend: the largest mean difference among those above the threshold.

    None if there is none.
    """
    limit = threshold(compared)
    passed = [
        name for name, value in differences.items() if value.probability >= limit and value.mean > 0
    ]
    return max(passed, key=lambda name: (differences[name].mean, name), default=None)


def _score(metric: str, task: str, logits: Array, y: Array) -> float:
    value = score(metric, task, logits, y)
    assert value is not None  # the metric is defined on the validation split
    return value


def _named(stream: tuple[str | int, ...]) -> tuple[int, str, str | int]:
    return (0, "recommend", *stream)  # type: ignore[return-value]
