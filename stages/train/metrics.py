"""Metrics: percent for accuracy and ROC-AUC, [-1, 1] for MCC, the labels' unit for RMSE."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.graphs.roc_auc import roc_auc

DIGITS = 4


def score(metric: str, task: str, logits: Array, y: Array) -> float | None:
    """Return the score of logits ``[G, C]`` for labels ``[G, C]``; None where it is undefined.

    Missing labels (NaN) do not count. ROC-AUC is the mean over tasks with both classes.
    """
    if metric == "rmse":
        error = (logits - y)[~np.isnan(y)]
        value = float(np.sqrt(np.mean(error**2))) if len(error) else None
    elif metric == "roc_auc":
        value = _roc_auc(task, logits, y)
    else:
        truth, predicted, _ = class_predictions(task, logits, y)
        value = _accuracy(truth, predicted) if metric == "accuracy" else _mcc(truth, predicted)
    return None if value is None else round(value, DIGITS)


def lower_is_better(metric: str) -> bool:
    """Return whether a metric is an error."""
    return metric == "rmse"


def is_better(metric: str, one: float, other: float) -> bool:
    """Return whether the score ``one`` is better than ``other``."""
    return one < other if lower_is_better(metric) else one > other


def arrow(metric: str) -> str:
    """Return an arrow in the direction of better scores.

    >>> arrow("roc_auc"), arrow("rmse")
    ('↑', '↓')
    """
    return "↓" if lower_is_better(metric) else "↑"


def undefined_reason(metric: str, task: str, y: Array) -> str | None:
    """Return why a metric is undefined for labels ``[G, C]``; None if it is defined."""
    if not (~np.isnan(y)).any():
        return "there are no labels"
    if metric == "roc_auc" and task == "classification" and y.shape[1] != 2:
        return f"it needs two classes, but there are {y.shape[1]}"
    if score(metric, task, np.zeros_like(y), y) is None:
        return "all labels have the same class"
    return None


def class_predictions(task: str, logits: Array, y: Array) -> tuple[Ints, Ints, Ints]:
    """Return true class, predicted class and graph of every label that is not missing."""
    if task == "classification":
        labelled = ~np.isnan(y).any(axis=1)
        graph = np.flatnonzero(labelled)
        return y[labelled].argmax(axis=1), logits[labelled].argmax(axis=1), graph
    labelled = ~np.isnan(y)
    truth = (y[labelled] > 0.5).astype(np.int64)
    predicted = (logits[labelled] > 0).astype(np.int64)
    return truth, predicted, np.nonzero(labelled)[0]


def binary_columns(logits: Array, y: Array) -> tuple[Array, Array]:
    """Return logits and labels ``[G, 1]`` of the second of two classes."""
    return logits[:, 1:] - logits[:, :1], y[:, 1:]


def _accuracy(truth: Array, predicted: Array) -> float | None:
    return 100 * float(np.mean(truth == predicted)) if len(truth) else None


def _mcc(truth: Array, predicted: Array) -> float | None:
    """Return Matthews' correlation for any number of classes; 0 if all predictions are equal."""
    if len(np.unique(truth)) < 2:
        return None
    classes = int(max(truth.max(), predicted.max())) + 1
    true_count = np.bincount(truth, minlength=classes)
    predicted_count = np.bincount(predicted, minlength=classes)
    total = float(len(truth))
    covariance = float((truth == predicted).sum()) * total - float(true_count @ predicted_count)
    variances = (total**2 - float(predicted_count @ predicted_count)) * (
        total**2 - float(true_count @ true_count)
    )
    return covariance / float(np.sqrt(variances)) if variances > 0 else 0.0


def _roc_auc(task: str, logits: Array, y: Array) -> float | None:
    if task == "classification":
        if y.shape[1] != 2:
            return None
        logits, y = binary_columns(logits, y)
    areas = []
    for column in range(y.shape[1]):
        labelled = ~np.isnan(y[:, column])
        area = roc_auc(logits[labelled, column], y[labelled, column] > 0.5)
        if area is not None:
            areas.append(area)
    return 100 * float(np.mean(areas)) if areas else None
