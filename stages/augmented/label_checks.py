"""Checks of the assumptions behind labels: causal subgraphs, label conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsx.stages.augmented.check import Check, Verdict

MEASURE_NAMES = {
    "roc_auc": "ROC-AUC",
    "balanced_accuracy": "Balanced accuracy",
    "r2": "R²",
}
MAX_CAUSAL_CONFLICTS = 0.15
"""Largest fraction of causal subgraphs without the most frequent label of their equals. Labels with
some noise pass."""
MAX_LABEL_CONFLICTS = 0.01
"""Largest fraction of generated graphs that may contradict an equal graph."""


def causal_prediction_check(quality: Mapping[str, Any]) -> Iterator[Check]:
    """Yield whether causal subgraphs predict held-out labels better than the rest and than chance.

    ``quality`` are the metrics of an extractor. The check fails if the remaining nodes predict
    labels better, or if only the whole graph predicts them better than chance.
    """
    scores, comparison = quality.get("held_out_scores"), quality.get("held_out_comparison")
    if not scores or None in map(scores.get, ("subgraph", "rest", "whole")):
        return
    title = "Causal subgraphs predict the label"
    if comparison is None:  # an extractor before version 6
        text = (
            f"From the remaining nodes {scores['rest']:.1%}, from the whole graph "
            f"{scores['whole']:.1%}. The extractor has no intervals: train it again."
        )
        yield Check("note", title, f"{scores['subgraph']:.1%}", text)
        return
    measure = comparison["measure"]
    parts = {name: _score(measure, scores[name]) for name in ("subgraph", "rest", "whole")}
    text = (
        f"{MEASURE_NAMES[measure]} of held-out labels predicted from the causal subgraph alone, on "
        f"{comparison['graphs']:,} graphs ({_interval(measure, comparison['subgraph'])}). From the "
        f"remaining nodes {parts['rest']}, from the whole graph {parts['whole']}, by chance "
        f"{_score(measure, comparison['chance'])}. "
    )
    verdict, conclusion = _causal_verdict(comparison)
    yield Check(verdict, title, parts["subgraph"], text + conclusion)


def _causal_verdict(comparison: Mapping[str, Any]) -> tuple[Verdict, str]:
    chance, difference = comparison["chance"], comparison["difference"]
    above_chance = {
        name: comparison[name] is not None and comparison[name][0] > chance
        for name in ("subgraph", "whole")
    }
    if difference is not None and difference[1] < 0:
        return "bad", "The remaining nodes predict the label better."
    if not above_chance["subgraph"]:
        if above_chance["whole"]:
            return "bad", "The causal subgraph predicts the label no better than chance."
        return "note", "Inconclusive: even the whole graph predicts it no better than chance."
    if difference is None or difference[0] <= 0:
        return "note", "Inconclusive: the remaining nodes may predict the label as well."
    return "good", "The causal subgraph predicts the label better than the remaining nodes."


def causal_conflict_check(counts: Mapping[str, int] | None, task: str) -> Iterator[Check]:
    """Yield whether equal causal subgraphs have equal labels.

    ``counts`` are those of ``label_causal_subgraphs``. Values of regression targets differ anyway.
    """
    if not counts or task == "regression":
        return
    compared = counts["subgraphs"] - counts["too_small"]
    if not compared:
        return
    outvoted = counts.get("outvoted", counts["in_conflict"])
    share = outvoted / compared
    text = (
        f"{counts['in_conflict']:,} of {compared:,} causal subgraphs "
        f"({counts['distinct_in_conflict']:,} of {counts['distinct']:,} distinct ones) equal one "
        f"with another label; {outvoted:,} do not have the most frequent label of their equals."
    )
    verdict: Verdict = "good" if share <= MAX_CAUSAL_CONFLICTS else "bad"
    if verdict == "bad":
        text += " So the causal subgraph does not determine the label."
    yield Check(verdict, "Equal causal subgraphs have equal labels", f"{1 - share:.1%}", text)


def label_conflict_check(rows: Mapping[str, Mapping[str, Any]], task: str) -> Iterator[Check]:
    """Yield whether equal graphs have equal labels; ``rows`` are the metrics of every option."""
    compared = [row for row in rows.values() if "label_conflicts" in row]
    graphs = sum(row["graphs"] for row in compared)
    if not graphs:
        return
    conflicts = sum(row["label_conflicts"] for row in compared)
    contradictions = sum(row.get("contradicts_training", 0) for row in compared)
    share = (conflicts + contradictions) / graphs
    text = (
        f"Among {graphs:,} generated graphs, equal graphs have {conflicts:,} further labels; "
        f"{contradictions:,} graphs equal a training graph with another label."
    )
    passed = share <= MAX_LABEL_CONFLICTS
    verdict: Verdict = "good" if passed else "note" if task == "regression" else "bad"
    title = "Equal graphs have equal labels"
    yield Check(verdict, title, f"{max(1 - share, 0.0):.1%}", text)


def _score(measure: str, value: float) -> str:
    return f"{value:.2f}" if measure == "r2" else f"{value:.1%}"


def _interval(measure: str, interval: list[float] | None) -> str:
    if interval is None:
        return "95 % interval undefined"
    low, high = (_score(measure, value) for value in interval)
    return f"95 % interval {low} to {high}"
