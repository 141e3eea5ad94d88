"""Kernel mean matching: weights that match the mean of some rows to the mean of all rows.

The kernel is Gaussian, approximated by random Fourier features (Rahimi & Recht 2007), so memory is
linear in the number of rows.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints

NUM_FEATURES = 256
"""Number of random Fourier features."""
PAIRS = 4096
"""Number of row pairs whose median distance sets the kernel width."""
MIN_WEIGHT, MAX_WEIGHT = 0.2, 5.0
"""Bounds of the weights; the lower one is the published one."""
ITERATIONS = 200
BISECTIONS = 40


def random_fourier_features(projections: Array, stream: np.random.Generator) -> Array:
    """Return random Fourier features ``[R, F]`` of rows, given their random projections.

    ``projections`` ``[R, F]`` are products of rows with standard normal directions, so the mean
    square of their differences estimates the squared distance of the rows.
    """
    left, right = stream.integers(0, len(projections), (2, PAIRS))
    distances = np.square(projections[left] - projections[right]).mean(axis=1)
    distances = distances[distances > 0]
    width = np.sqrt(np.median(distances)) if len(distances) else 1.0
    offset = stream.uniform(0, 2 * np.pi, projections.shape[1])
    features: Array = np.cos(projections / width + offset) * np.sqrt(2 / projections.shape[1])
    return features.astype(np.float32)


def kernel_mean_matching(rows: Array, mean: Array, group: Ints) -> Array:
    """Return weights ``[R]`` that bring the weighted mean of ``rows`` closest to ``mean``.

    Weights are within the bounds and have mean 1 in every group, so class proportions do not
    change. The solver is accelerated projected gradient descent.
    """
    count, rows = len(rows), rows.astype(np.float64)
    curvature = float(np.linalg.eigvalsh(rows.T @ rows)[-1]) / count**2
    step = 1 / max(curvature, np.finfo(np.float64).tiny)
    weights = extrapolated = np.ones(count)
    momentum = 1.0
    for _ in range(ITERATIONS):
        gradient = rows @ (rows.T @ extrapolated / count - mean) / count
        updated = project_weights(extrapolated - step * gradient, group)
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        extrapolated = updated + (momentum - 1) / next_momentum * (updated - weights)
        weights, momentum = updated, next_momentum
    return weights


def project_weights(weights: Array, group: Ints) -> Array:
    """Return the closest weights within the bounds that have mean 1 in every group."""
    size = np.bincount(group)
    low = np.full(len(size), weights.min() - MAX_WEIGHT)
    high = np.full(len(size), weights.max() - MIN_WEIGHT)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        total = np.bincount(group, np.clip(weights - middle[group], MIN_WEIGHT, MAX_WEIGHT))
        low, high = np.where(total > size, middle, low), np.where(total > size, high, middle)
    projected: Array = np.clip(weights - ((low + high) / 2)[group], MIN_WEIGHT, MAX_WEIGHT)
    return projected
