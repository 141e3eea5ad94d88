"""Measures of agreement between predictions and labels that majority classes do not dominate."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array
from gsx.stages.graphs.roc_auc import roc_auc

TIE = 1e-6
"""Difference of label probabilities below which classes are equally likely."""
MEASURES = {
    "classification": "Balanced accuracy",
    "binary": "ROC-AUC",
    "multitask": "Mean ROC-AUC",
    "regression": "Concordance index",
}
"""Measure of agreement, by task. For soft labels of binary tasks, ROC-AUC is the concordance index:
the fraction of pairs with different labels whose predictions have the same order."""


def agreement_measure(task: str, logits: Array, y: Array) -> float | None:
    """Return the measure of the task; None if it is undefined, such as for a single class."""
    if task == "classification":
        return balanced_agreement(logits, y)
    values = [concordance(logits[:, column], y[:, column]) for column in range(y.shape[1])]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def chance_of(task: str, num_classes: int) -> float:
    """Return the value of the measure for predictions that ignore the graph."""
    return 1 / max(num_classes, 1) if task == "classification" else 0.5


def concordance(score: Array, y: Array) -> float | None:
    """Return the concordance index; ties of scores count half. For labels 0 and 1, the ROC-AUC."""
    labelled = ~np.isnan(y)
    score, y = score[labelled].astype(np.float64), y[labelled]
    if ((y == 0) | (y == 1)).all():
        return roc_auc(score, y > 0.5)
    higher = y[:, None] > y[None, :]
    pairs = int(higher.sum())
    if not pairs:
        return None
    difference = score[:, None] - score[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0))[higher].sum() / pairs)


def balanced_agreement(logits: Array, y: Array) -> float | None:
    """Return the mean over classes of the fraction of their items that are predicted right.

    An item belongs to all of its most likely classes, and any of these is right.
    """
    labelled = ~np.isnan(y).any(axis=1)
    logits, y = logits[labelled], y[labelled]
    if not len(y):
        return None
    is_likely = y >= y.max(axis=1, keepdims=True) - TIE
    is_right = is_likely[np.arange(len(y)), logits.argmax(axis=1)]
    items = is_likely.sum(axis=0)
    present = items > 0
    if present.sum() < 2:
        return None
    return float(((is_likely & is_right[:, None]).sum(axis=0)[present] / items[present]).mean())
