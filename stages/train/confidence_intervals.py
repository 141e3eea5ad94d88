"""How sure a score is: over the graphs of a split, and over models of several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.train.metrics import DIGITS, decisions, of_two_classes

RESAMPLES = 1000
LEVEL = 0.95
BLOCK = 1 << 22
"""Numbers drawn at a time."""

Interval = tuple[float, float]


def bootstrap(metric: str, task: str, logits: Array, y: Array, *name: str | int) -> Interval | None:
    """Return where a score lies in 95 % of the samples redrawn from these graphs.

    Percentiles over samples of as many graphs, drawn with replacement by the stream ``name``.
    None where the score is undefined, in every sample.
    """
    if not len(y):
        return None
    drawn = [resampled(metric, task, logits, y, times) for times in _samples(len(y), *name)]
    scores = np.concatenate(drawn)
    scores = scores[~np.isnan(scores)]
    if not len(scores):
        return None
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return round(float(low), DIGITS), round(float(high), DIGITS)


def t_interval(scores: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of the mean, after Student; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(len(scores) - 1, (1 + LEVEL) / 2)) * statistics.stdev(scores)
    reach, mean = reach / len(scores) ** 0.5, statistics.fmean(scores)
    return round(mean - reach, DIGITS), round(mean + reach, DIGITS)


def resampled(metric: str, task: str, logits: Array, y: Array, times: Array) -> Array:
    """Return the score ``[B]`` of samples that hold each graph ``times`` ``[B, G]``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "roc_auc":
            return _areas(task, logits, y, times)
        if metric == "rmse":
            known = ~np.isnan(y)
            squares = np.where(known, (logits - np.nan_to_num(y)) ** 2, 0).sum(axis=1)
            root: Array = np.sqrt((times @ squares) / (times @ known.sum(axis=1)))
            return root
        truth, told, owner = decisions(task, logits, y)
        right = _per_graph(truth == told, owner, len(y))
        total = times @ _per_graph(np.ones(len(owner)), owner, len(y))
        if metric == "accuracy":
            share: Array = 100 * (times @ right) / total
            return share
        return _correlations(truth, told, owner, times, times @ right, total)


def _samples(graphs: int, *name: str | int) -> Iterator[Array]:
    """Yield how often each graph is in each sample, ``[B, G]``, some samples at a time."""
    stream = rng(0, "evaluate", "bootstrap", *name)
    step = max(BLOCK // graphs, 1)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        drawn = stream.integers(graphs, size=(count, graphs))
        drawn += np.arange(count)[:, None] * graphs
        times = np.bincount(drawn.ravel(), minlength=count * graphs)
        yield times.reshape(count, graphs).astype(np.float64)


def _per_graph(values: Array, owner: Ints, graphs: int) -> Array:
    return np.bincount(owner, weights=values.astype(np.float64), minlength=graphs)


def _correlations(
    truth: Ints, told: Ints, owner: Ints, times: Array, agree: Array, total: Array
) -> Array:
    """Return Matthews' correlation of every sample."""
    classes = range(int(max(truth.max(initial=0), told.max(initial=0))) + 1)
    graphs = times.shape[1]
    true, said = (
        times @ np.stack([_per_graph(found == each, owner, graphs) for each in classes], axis=1)
        for found in (truth, told)
    )
    spread = (total**2 - (said**2).sum(axis=1)) * (total**2 - (true**2).sum(axis=1))
    value = (agree * total - (true * said).sum(axis=1)) / np.sqrt(spread)
    value = np.where(spread > 0, value, 0.0)
    return np.where((true > 0).sum(axis=1) > 1, value, np.nan)


def _areas(task: str, logits: Array, y: Array, times: Array) -> Array:
    """Return the ROC-AUC of every sample, the mean over tasks that hold both classes."""
    if task == "classification":
        if y.shape[1] != 2:
            return np.full(len(times), np.nan)
        logits, y = of_two_classes(logits, y)
    sums, counted = np.zeros(len(times)), np.zeros(len(times))
    for column in range(y.shape[1]):
        known = np.flatnonzero(~np.isnan(y[:, column]))
        known = known[np.argsort(logits[known, column], kind="stable")]
        if not len(known):
            continue
        scores, yes = logits[known, column], y[known, column] > 0.5
        starts = np.flatnonzero(np.r_[True, scores[1:] != scores[:-1]])
        positive = np.add.reduceat(times[:, known] * yes, starts, axis=1)
        negative = np.add.reduceat(times[:, known] * ~yes, starts, axis=1)
        # A positive beats the negatives below it, and half of those that tie with it.
        below = np.cumsum(negative, axis=1) - negative / 2
        area = (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))
        defined = np.isfinite(area)
        sums[defined] += area[defined]
        counted += defined
    return 100 * sums / np.where(counted > 0, counted, np.nan)
