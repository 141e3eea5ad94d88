"""`gsx compare`: compare two corpora by training on both, or two methods of result files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import Options
from gsx.pipeline.commands.resolve_corpus import resolve_corpus
from gsx.pipeline.compare import CompareRequest, CorpusComparison, PairedModels
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.train.data import TEST
from gsx.stages.train.metrics import arrow, lower_is_better
from gsx.stages.train.paired_comparison import Comparison, compare_methods
from gsx.stages.train.presets import options_for
from gsx.stages.train.result_file import write_result
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.text_table import format_score, format_table

BASELINE = "baseline"
"""Name of the second corpus in result files."""
SIGNIFICANT = 0.05
"""Largest p value of a difference that is called better or worse."""
_OWN_OPTIONS = ("store", "quiet", "as_json", "seeds", "seed", "split", "equal_epochs", "results",
                "method", "preset")  # fmt: skip


def compare_request(
    names: Sequence[str | Artifact], options: Options, store: Store
) -> CompareRequest:
    """Return what to train and to compare: one or two corpora, and the options of training."""
    if options["steps"] is not None and (options["epochs"] is not None or options["equal_epochs"]):
        raise UsageError("--steps excludes --epochs and --equal-epochs; give one of them")
    artifacts = [resolve_corpus(store, name) for name in names]
    training = {name: value for name, value in options.items() if name not in _OWN_OPTIONS}
    return CompareRequest(
        corpus=artifacts[0],
        baseline=artifacts[1] if len(artifacts) == 2 else None,
        options=options_for(options["preset"], training, Corpus(artifacts[0]).info),
        seeds=options["seeds"],
        first_seed=options["seed"],
        splits=TEST if options["split"] is None else (options["split"],),
        equal_epochs=options["equal_epochs"],
    )


def write_results(comparison: CorpusComparison, options: Options, command: str) -> list[str]:
    """Write a result file of every run and return the paths."""
    if options["results"] is None:
        return []
    methods = (options["method"], BASELINE)
    return [
        str(write_result(Path(options["results"]), method, options["preset"], built, command))
        for pair in comparison.builds
        for method, built in zip(methods, pair, strict=True)
    ]


def comparison_document(comparison: CorpusComparison, request: CompareRequest) -> dict[str, Any]:
    """Return a comparison of two corpora as plain values."""
    baseline = request.baseline
    return {
        "dataset": comparison.name,
        "metric": comparison.metric,
        "higher_is_better": not lower_is_better(comparison.metric),
        "corpus_key": identity(request.corpus).key,
        "baseline": "source graphs" if baseline is None else identity(baseline).key,
        "steps": comparison.steps,
        "splits": {
            split: {
                "items": comparison.items[split],
                "corpus": row.method,
                "baseline": row.baseline,
                **dict(zip(("gain", "low", "high"), row.gain, strict=True)),
                "p": row.p,
            }
            for split, row in comparison.splits.items()
        },
        "runs": [dataclasses.asdict(run) for run in comparison.runs],
    }


def pair_text(pair: PairedModels) -> str:
    """Return the scores of two models with the same seed as one line."""
    scores = ", ".join(
        f"{split} {format_score(value)} (baseline {format_score(pair.baseline_scores[split])})"
        for split, value in pair.scores.items()
    )
    return f"seed {pair.seed}: {scores}"


def verdict(row: Comparison) -> str:
    """Return whether a difference is clear, in words."""
    _, low, high = row.gain
    if low > 0 and row.p < SIGNIFICANT:
        return "better"
    if high < 0 and row.p < SIGNIFICANT:
        return "worse"
    return "no clear difference"


def format_comparison(comparison: CorpusComparison, *, one_corpus: bool) -> list[str]:
    """Return a comparison of two corpora as a heading, a table and a verdict per split."""
    digits = 3 if comparison.metric in ("mcc", "rmse") else 2
    lines = [
        (
            split,
            comparison.items[split],
            f"{row.method:.{digits}f}",
            f"{row.baseline:.{digits}f}",
            f"{row.gain[0]:+.{digits}f}",
            " to ".join(f"{value:+.{digits}f}" for value in row.gain[1:]),
            f"{row.p:.3f}",
        )
        for split, row in comparison.splits.items()
    ]
    sides = ("AUGMENTED", "SOURCE") if one_corpus else ("CORPUS", "BASELINE")
    steps = "" if comparison.steps is None else f", {comparison.steps:,} gradient steps per run"
    head = (
        f"{comparison.name}: {comparison.metric} {arrow(comparison.metric)}, "
        f"{len(comparison.runs)} seed{'s' if len(comparison.runs) > 1 else ''}{steps}"
    )
    table = format_table(lines, ("SPLIT", "ITEMS", *sides, "GAIN", "95 %", "P"))
    verdicts = (f"{split}: {verdict(row)}" for split, row in comparison.splits.items())
    return [head, *table, *verdicts]


def compare_result_files(
    folder: Path, method: str, baseline: str, split: str, store: Store
) -> list[Comparison]:
    """Return the difference of two methods of result files, for every dataset."""
    with one_thread():
        return list(
            compare_methods(
                folder, method, baseline, split, lambda key, kind: store.resolve(key, kind=kind)
            )
        )
