"""Checks of the labels of generated items against the predictions of a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gsx.stages.augmented.check import Check, Verdict

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ModelAgreement

MARGIN = 0.05
"""Largest tolerated drop of agreement from labelled items to generated items."""
RELIABLE = 0.1
"""Agreement on labelled items above chance from which the model is conclusive."""
MAX_ERROR_RATIO = 2.0
"""Largest tolerated absolute error on generated items, relative to labelled held-out items."""
SIMILAR_ERROR_RATIO = 1.25
REFERENCES = ("id_test", "train")
"""Groups with known labels, the preferred one first."""


def agreement_check(agreement: ModelAgreement | None, skipped: Sequence[str]) -> Iterator[Check]:
    """Yield the agreement of a model with labels of generated items, against known labels."""
    if agreement is None:
        if skipped:
            text = f"{len(skipped)} classifiers could not be used; the first is {skipped[0]}"
            yield Check("note", "Classifier agreement", "not checked", text)
        return
    generated = [row for row in agreement.rows if row["group"] == "augmented"]
    known = {row["group"]: row for row in agreement.rows if row["group"] != "augmented"}
    yield from _rank_check(agreement, generated, known)
    yield from _error_check(agreement, generated, known)


def _rank_check(
    agreement: ModelAgreement,
    generated: Sequence[Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]],
) -> Iterator[Check]:
    value = _mean(generated, "agreement")
    if value is None:
        return
    reference = next((known[name] for name in REFERENCES if name in known), {})
    expected = reference.get("agreement")
    chance = agreement.chance
    text = (
        f"{agreement.measure} of the predictions of {agreement.name} (trained on "
        f"{agreement.trained_on}) for the labels of generated items; chance is {chance:.1%}."
    )
    if expected is not None:
        text += (
            f" On {reference['name']} it is {expected:.1%}. A disagreement can be an error of the "
            "classifier."
        )
    verdict: Verdict = "note"
    if agreement.trained_on_these:
        text += " It was trained on these labels, so the agreement is inconclusive."
    elif expected is None or expected < chance + RELIABLE:
        text += " The classifier is too weak to be conclusive."
    elif value >= expected - MARGIN:
        verdict = "good"
    elif value <= chance:
        verdict = "bad"
        text += " The labels of generated items contradict the classifier."
    yield Check(verdict, "Classifier agreement", f"{value:.1%}", text)


def _error_check(
    agreement: ModelAgreement,
    generated: Sequence[Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]],
) -> Iterator[Check]:
    """Compare absolute errors of a regression model on generated and on labelled items."""
    error = _mean(generated, "off")
    errors = {
        row["name"]: row["off"]
        for name, row in known.items()
        if name in ("id_test", "ood_val") and row.get("off") is not None
    }
    if error is None or not errors:
        return
    name, largest = max(errors.items(), key=lambda item: item[1])
    text = (
        f"Mean absolute difference between labels of generated items and predictions of "
        f"{agreement.name}. On {name}, whose labels are known, it is {largest:.3g}."
    )
    verdict: Verdict = "note"
    if agreement.trained_on_these:
        text += " The model was trained on these labels, so the comparison is inconclusive."
    elif error <= SIMILAR_ERROR_RATIO * largest:
        verdict = "good"
    elif error > MAX_ERROR_RATIO * largest:
        verdict = "bad"
        text += " The labels of generated items contradict the model."
    yield Check(verdict, "Labels match predicted values", f"{error:.3g}", text)


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a field, weighted by the number of items; None if no row has it."""
    values = [(row[name], row["items"]) for row in rows if row.get(name) is not None]
    items = sum(count for _, count in values)
    return sum(value * count for value, count in values) / items if items else None
