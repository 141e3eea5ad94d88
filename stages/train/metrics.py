"""Scores as published: percent for accuracy and ROC-AUC, [-1, 1] for MCC, labels' unit for RMSE."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.graphs.roc_auc import roc_auc

DIGITS = 4


def score(metric: str, task: str, logits: Array, y: Array) -> float | None:
    """Return the score of logits ``[G, C]`` against labels ``[G, C]``; None where undefined.

    Labels that are missing do not count. ROC-AUC is the mean over tasks that hold both classes.
    """
    if metric == "rmse":
        error = (logits - y)[~np.isnan(y)]
        value = float(np.sqrt(np.mean(error**2))) if len(error) else None
    elif metric == "roc_auc":
        value = _area(task, logits, y)
    else:
        truth, told, _ = decisions(task, logits, y)
        value = _accuracy(truth, told) if metric == "accuracy" else _mcc(truth, told)
    return None if value is None else round(value, DIGITS)


def better(metric: str, one: float, other: float) -> bool:
    """Say whether ``one`` is the better score."""
    return one < other if metric == "rmse" else one > other


def why_undefined(metric: str, task: str, y: Array) -> str | None:
    """Say why a metric means nothing on labels ``[G, C]``; None where it means something."""
    if not (~np.isnan(y)).any():
        return "no graph has a label"
    if metric == "roc_auc" and task == "classification" and y.shape[1] != 2:
        return f"it is for two classes, and there are {y.shape[1]}"
    if score(metric, task, np.zeros_like(y), y) is None:
        return "all labels are of one class"
    return None


def decisions(task: str, logits: Array, y: Array) -> tuple[Ints, Ints, Ints]:
    """Return true and told classes of all that is known, and the graph of each."""
    if task == "classification":
        known = ~np.isnan(y).any(axis=1)
        return y[known].argmax(axis=1), logits[known].argmax(axis=1), np.flatnonzero(known)
    known = ~np.isnan(y)
    truth, told = (y[known] > 0.5).astype(np.int64), (logits[known] > 0).astype(np.int64)
    return truth, told, np.nonzero(known)[0]


def of_two_classes(logits: Array, y: Array) -> tuple[Array, Array]:
    """Return two classes as one yes or no."""
    return logits[:, 1:] - logits[:, :1], y[:, 1:]


def _accuracy(truth: Array, told: Array) -> float | None:
    return 100 * float(np.mean(truth == told)) if len(truth) else None


def _mcc(truth: Array, told: Array) -> float | None:
    """Return Matthews' correlation for any number of classes; one class told alone scores 0."""
    if len(np.unique(truth)) < 2:
        return None
    classes = int(max(truth.max(), told.max())) + 1
    true, said = np.bincount(truth, minlength=classes), np.bincount(told, minlength=classes)
    total = float(len(truth))
    agreement = float((truth == told).sum()) * total - float(true @ said)
    spread = (total**2 - float(said @ said)) * (total**2 - float(true @ true))
    return agreement / float(np.sqrt(spread)) if spread > 0 else 0.0


def _area(task: str, logits: Array, y: Array) -> float | None:
    if task == "classification":
        if y.shape[1] != 2:
            return None
        logits, y = of_two_classes(logits, y)
    areas = []
    for column in range(y.shape[1]):
        known = ~np.isnan(y[:, column])
        area = roc_auc(logits[known, column], y[known, column] > 0.5)
        if area is not None:
            areas.append(area)
    return 100 * float(np.mean(areas)) if areas else None
