"""95 % confidence intervals: over the graphs of a split, and over models of several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.train.metrics import DIGITS, binary_columns, class_predictions

RESAMPLES = 1000
LEVEL = 0.95
BLOCK = 1 << 22
"""Number of random integers drawn at a time."""

Interval = tuple[float, float]


def bootstrap_interval(
    metric: str, task: str, logits: Array, y: Array, *name: str | int
) -> Interval | None:
    """Return the percentile bootstrap interval of a score.

    Resamples graphs with replacement, from the random stream ``name``. None if the score is
    undefined in every resample.
    """
    if not len(y):
        return None
    blocks = [
        resampled_scores(metric, task, logits, y, counts)
        for counts in resample_counts(len(y), *name)
    ]
    scores = np.concatenate(blocks)
    scores = scores[~np.isnan(scores)]
    if not len(scores):
        return None
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return round(float(low), DIGITS), round(float(high), DIGITS)


def t_interval(scores: Sequence[float]) -> Interval | None:
    """Return Student's t interval of the mean; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    from scipy.special import stdtrit

    margin = float(stdtrit(len(scores) - 1, (1 + LEVEL) / 2)) * statistics.stdev(scores)
    margin, mean = margin / len(scores) ** 0.5, statistics.fmean(scores)
    return round(mean - margin, DIGITS), round(mean + margin, DIGITS)


def resampled_scores(metric: str, task: str, logits: Array, y: Array, counts: Array) -> Array:
    """Return the scores ``[B]`` of resamples that contain each graph ``counts`` ``[B, G]`` times.

    NaN where a score is undefined.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "roc_auc":
            return _roc_auc(task, logits, y, counts)
        if metric == "rmse":
            labelled = ~np.isnan(y)
            squares = np.where(labelled, (logits - np.nan_to_num(y)) ** 2, 0).sum(axis=1)
            rmse: Array = np.sqrt((counts @ squares) / (counts @ labelled.sum(axis=1)))
            return rmse
        truth, predicted, graph = class_predictions(task, logits, y)
        correct = _per_graph(truth == predicted, graph, len(y))
        total = counts @ _per_graph(np.ones(len(graph)), graph, len(y))
        if metric == "accuracy":
            accuracy: Array = 100 * (counts @ correct) / total
            return accuracy
        return _mcc(truth, predicted, graph, counts, counts @ correct, total)


def resample_counts(graphs: int, *name: str | int) -> Iterator[Array]:
    """Yield the multiplicities ``[B, G]`` of graphs in resamples, in blocks."""
    stream = rng(0, "evaluate", "bootstrap", *name)
    step = max(BLOCK // graphs, 1)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        drawn = stream.integers(graphs, size=(count, graphs))
        drawn += np.arange(count)[:, None] * graphs
        counts = np.bincount(drawn.ravel(), minlength=count * graphs)
        yield counts.reshape(count, graphs).astype(np.float64)


def _per_graph(values: Array, graph: Ints, graphs: int) -> Array:
    return np.bincount(graph, weights=values.astype(np.float64), minlength=graphs)


def _mcc(
    truth: Ints, predicted: Ints, graph: Ints, counts: Array, correct: Array, total: Array
) -> Array:
    """Return Matthews' correlation of every resample."""
    classes = range(int(max(truth.max(initial=0), predicted.max(initial=0))) + 1)
    graphs = counts.shape[1]
    true_count, predicted_count = (
        counts @ np.stack([_per_graph(column == c, graph, graphs) for c in classes], axis=1)
        for column in (truth, predicted)
    )
    variances = (total**2 - (predicted_count**2).sum(axis=1)) * (
        total**2 - (true_count**2).sum(axis=1)
    )
    covariance = correct * total - (true_count * predicted_count).sum(axis=1)
    value = covariance / np.sqrt(variances)
    value = np.where(variances > 0, value, 0.0)
    return np.where((true_count > 0).sum(axis=1) > 1, value, np.nan)


def _roc_auc(task: str, logits: Array, y: Array, counts: Array) -> Array:
    """Return the ROC-AUC of every resample, the mean over tasks with both classes."""
    if task == "classification":
        if y.shape[1] != 2:
            return np.full(len(counts), np.nan)
        logits, y = binary_columns(logits, y)
    sums, tasks = np.zeros(len(counts)), np.zeros(len(counts))
    for column in range(y.shape[1]):
        labelled = np.flatnonzero(~np.isnan(y[:, column]))
        order = labelled[np.argsort(logits[labelled, column], kind="stable")]
        if not len(order):
            continue
        scores, is_positive = logits[order, column], y[order, column] > 0.5
        starts = np.flatnonzero(np.r_[True, scores[1:] != scores[:-1]])
        positive = np.add.reduceat(counts[:, order] * is_positive, starts, axis=1)
        negative = np.add.reduceat(counts[:, order] * ~is_positive, starts, axis=1)
        # A positive ranks above all negatives below it and half of those with an equal score.
        below = np.cumsum(negative, axis=1) - negative / 2
        area = (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))
        defined = np.isfinite(area)
        sums[defined] += area[defined]
        tasks += defined
    return 100 * sums / np.where(tasks > 0, tasks, np.nan)
