"""Kernel mean matching: weights that make some rows resemble all rows in the mean.

Rows are compared by a Gaussian kernel, through random features whose products are the kernel in
the mean (Rahimi & Recht 2007), so that memory grows with rows and not with pairs of rows.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints

WAVES = 256
"""Random features of a row."""
PAIRS = 4096
"""Pairs of rows whose median distance is the width of the kernel."""
LEAST, MOST = 0.2, 5.0
"""Bounds of weights; the lower one is the published one."""
ROUNDS = 200
HALVINGS = 40


def waves(phases: Array, stream: np.random.Generator) -> Array:
    """Return random features ``[R, W]`` of rows whose projections on drawn directions are given.

    ``phases`` ``[R, W]`` are products with standard normal directions, so the mean square of their
    differences is the squared distance of the rows.
    """
    left, right = stream.integers(0, len(phases), (2, PAIRS))
    apart = np.square(phases[left] - phases[right]).mean(axis=1)
    apart = apart[apart > 0]
    width = np.sqrt(np.median(apart)) if len(apart) else 1.0
    turn = stream.uniform(0, 2 * np.pi, phases.shape[1])
    found: Array = np.cos(phases / width + turn) * np.sqrt(2 / phases.shape[1])
    return found.astype(np.float32)


def match(rows: Array, mean: Array, group: Ints) -> Array:
    """Return weights ``[R]`` whose weighted mean of ``rows`` is as close to ``mean`` as can be.

    Weights lie within the bounds, and have the mean 1 in every group: labels keep their shares.
    """
    count, rows = len(rows), rows.astype(np.float64)
    steepest = float(np.linalg.eigvalsh(rows.T @ rows)[-1]) / count**2
    step = 1 / max(steepest, np.finfo(np.float64).tiny)
    weights = ahead = np.ones(count)
    pace = 1.0
    for _ in range(ROUNDS):
        slope = rows @ (rows.T @ ahead / count - mean) / count
        moved = project(ahead - step * slope, group)
        next_pace = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = moved + (pace - 1) / next_pace * (moved - weights)
        weights, pace = moved, next_pace
    return weights


def project(weights: Array, group: Ints) -> Array:
    """Return the nearest weights within the bounds whose mean is 1 in every group."""
    size = np.bincount(group)
    low = np.full(len(size), weights.min() - MOST)
    high = np.full(len(size), weights.max() - LEAST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        total = np.bincount(group, np.clip(weights - middle[group], LEAST, MOST))
        low, high = np.where(total > size, middle, low), np.where(total > size, high, middle)
    found: Array = np.clip(weights - ((low + high) / 2)[group], LEAST, MOST)
    return found
