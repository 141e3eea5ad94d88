"""OOD test scores of all stored training runs under several rules that select an epoch.

``python -m experiments.analysis.selection_rules`` (part of ``make docs``) reads every training run
below ``results``, writes ``results/selection-rules.json`` and prints the table of
``docs/results.md``. Rules:

- ``last``: the last epoch;
- ``ood_val``: the best epoch by OOD validation, as stored in the result file. Among equally good
  epochs this is the last one in files without curves, and the first one in newer files;
- ``first`` and ``final``: the first and the last of the equally good epochs by OOD validation;
- ``tail``: the mean score of the last quarter of the epochs.

``first``, ``final`` and ``tail`` need the score of every epoch, which older result files do not
have. Test scores are used to report what a rule changes, never to choose an epoch, a rule or a
method: the protocol's rule is ``last``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.suite import RESULTS
from gsx.stages.train.result_documents import REQUIRED_KEYS

FILE = RESULTS / "selection-rules.json"
TAIL = 0.25
"""Share of the epochs that ``tail`` averages over."""
EARLY = 0.2
"""Epochs in this first share of a run count as early."""
RULES = ("last", "ood_val", "first", "final", "tail")
_POINTS = {"mcc": 100.0}
"""Points per unit of a metric; 1 for percentages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """OOD test scores of one run, in points, by rule; a rule that cannot be applied is missing."""

    scores: Mapping[str, float]
    early: bool
    """Whether OOD validation selects an early epoch."""
    tied: bool | None
    """Whether several epochs are equally good by OOD validation; None without curves."""


def write() -> dict[str, Any]:
    """Write the comparison of all stored runs into its file, and return it."""
    comparison = summary(RESULTS)
    FILE.write_bytes(document_bytes(comparison))
    return comparison


def summary(folder: Path) -> dict[str, Any]:
    """Return the comparison of rules by group of runs and dataset, for all runs below a folder.

    A group is the path between ``folder`` and the directory of a dataset; ``main`` is the folder.
    """
    groups: dict[str, dict[str, list[Rescored]]] = {}
    for path in sorted(folder.rglob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(run, dict) or not run.keys() >= {*REQUIRED_KEYS, "scores"}:
            continue
        rescored = rescore(run)
        if rescored is not None:
            group = path.parent.parent.relative_to(folder).as_posix()
            group = "main" if group == "." else group
            groups.setdefault(group, {}).setdefault(run["dataset"], []).append(rescored)
    return {
        group: {name: _compare(runs) for name, runs in sorted(datasets.items())}
        for group, datasets in sorted(groups.items(), key=lambda item: (item[0] != "main", item[0]))
    }


def rescore(run: Mapping[str, Any]) -> Rescored | None:
    """Score a run under all rules; None without test scores or without OOD validation."""
    points = _POINTS.get(run["metric"], 1.0)
    stored = {
        rule: run["scores"][rule]["ood_test"]
        for rule in ("last", "ood_val")
        if run["scores"].get(rule, {}).get("ood_test") is not None
    }
    if len(stored) < 2:
        return None
    selected = run["scores"]["ood_val"]["epoch"]
    epochs = run["scores"]["last"]["epoch"] + 1
    tied = None
    curves = run.get("curves", {})
    if "ood_test" in curves:
        validation, test = curves["ood_val"], curves["ood_test"]
        best = (min if run["metric"] == "rmse" else max)(validation)
        equal = [epoch for epoch, score in enumerate(validation) if score == best]
        tail = test[-max(1, round(TAIL * len(test))) :]
        stored |= {"first": test[equal[0]], "final": test[equal[-1]]}
        stored["tail"] = statistics.fmean(tail)
        tied = len(equal) > 1
    return Rescored(
        scores={rule: points * score for rule, score in stored.items()},
        early=selected < EARLY * epochs,
        tied=tied,
    )


def _compare(runs: Sequence[Rescored]) -> dict[str, Any]:
    """Return means by rule, and differences to the last epoch with their standard errors."""
    with_curves = [run for run in runs if run.tied is not None]
    row: dict[str, Any] = {
        "runs": len(runs),
        "curves": len(with_curves),
        "early": sum(run.early for run in runs),
        "tied": sum(run.tied is True for run in runs),
    }
    for rule in RULES:
        scores = [run.scores[rule] for run in runs if rule in run.scores]
        if scores:
            row[rule] = round(statistics.fmean(scores), 4)
    for rule in RULES[1:]:
        differences = [run.scores[rule] - run.scores["last"] for run in runs if rule in run.scores]
        if differences:
            row[f"{rule} - last"] = _mean_and_error(differences)
    if with_curves:
        row["first - final"] = _mean_and_error(
            [run.scores["first"] - run.scores["final"] for run in with_curves]
        )
    return row


def _mean_and_error(values: Sequence[float]) -> dict[str, float | None]:
    """Return the mean and its standard error, None for one value."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {
        "mean": round(statistics.fmean(values), 4),
        "error": None if error is None else round(error, 4),
    }


def table(comparison: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown tables: rules of all runs, then ties and tails of runs with curves."""
    lines = [
        "| runs | dataset | n | last | ood_val | ood_val - last | early |",
        "|---|---|---|---|---|---|---|",
    ]
    with_curves = [
        "| runs | dataset | n | tied | first - final | first - last | tail - last |",
        "|---|---|---|---|---|---|---|",
    ]
    for group, datasets in comparison.items():
        for name, row in datasets.items():
            start = f"| {group} | {name} "
            lines.append(
                f"{start}| {row['runs']} | {row['last']:.1f} | {row['ood_val']:.1f} "
                f"| {_text(row['ood_val - last'])} | {row['early'] / row['runs']:.0%} |"
            )
            if row["curves"]:
                differences = ("first - final", "first - last", "tail - last")
                cells = " | ".join(_text(row[difference]) for difference in differences)
                with_curves.append(f"{start}| {row['curves']} | {row['tied']} | {cells} |")
    if len(with_curves) > 2:
        lines += ["", "Runs with curves:", "", *with_curves]
    return "\n".join(lines)


def _text(value: Mapping[str, float | None]) -> str:
    error = value["error"]
    return f"{value['mean']:+.1f}" + ("" if error is None else f" ± {error:.1f}")


def document_bytes(comparison: Mapping[str, Any]) -> bytes:
    """Encode the comparison as indented JSON."""
    return (json.dumps(comparison, indent=2) + "\n").encode()


if __name__ == "__main__":
    print(table(write()))
