"""Linear models with soft and missing labels: logistic regression and ridge regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Scaling = Literal["norm", "std", "max"]
MAX_ITERATIONS = 300
EPSILON = 1e-6
"""Smallest rate of a class that a constant prediction has."""
ABSENT_LOGIT = -50.0
"""Logit of a class without training examples."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LinearModel:
    """Linear functions of features, one per class or task."""

    weights: Array
    """``[F, C]`` float64, for features that are not scaled."""
    bias: Array
    """``[C]`` float64."""

    def predict(self, features: csr_array) -> Array:
        """Return the logits ``[G, C]``, for regression the values; metrics take either."""
        return np.asarray(features @ self.weights) + self.bias


def fit_linear(
    features: csr_array,
    targets: Array,
    *,
    task: str,
    strength: float,
    seed: int = 0,
    weights: Array | None = None,
    scaling: Scaling = "norm",
) -> LinearModel:
    """Fit a linear model to features ``[G, F]`` and targets ``[G, C]``; missing targets are NaN.

    ``strength`` is the L2 penalty: alpha of ridge regression, 1 / C of logistic regression.
    ``weights`` ``[G]`` weigh examples; only their ratios count. ``scaling``, without centering:
    ``norm`` divides all features by one number, the standard deviation of the vectors, so that rare
    features stay small; ``std`` and ``max`` divide each feature by its standard deviation or its
    largest absolute value.

    A soft label counts as one example per class, weighted by its probability. Every binary task has
    a model of its own; a task with a single class predicts the rate of that class.
    """
    if not strength > 0:
        raise ValueError(f"strength must be positive; got {strength}")
    from threadpoolctl import threadpool_limits

    # Products are small: on a busy machine, threads that wait for each other take ten times longer.
    with threadpool_limits(1):
        return _fit(features, targets, task, strength, seed, weights, scaling)


def _fit(
    features: csr_array,
    targets: Array,
    task: str,
    strength: float,
    seed: int,
    weights: Array | None,
    scaling: Scaling,
) -> LinearModel:
    width = features.shape[1]
    if not width:  # scikit-learn needs a column
        from scipy.sparse import csr_array

        features = csr_array((features.shape[0], 1))
    inverse = 1 / _scales(features, scaling)
    scaled = features.astype(np.float64) @ _diagonal(inverse)
    rows = np.ones(features.shape[0]) if weights is None else np.asarray(weights, np.float64)
    rows = rows / rows.mean()  # the penalty does not depend on the unit of weights
    if task == "regression":
        coefficients, bias = _ridge(scaled, targets, rows, strength)
    elif task == "classification":
        coefficients, bias = _classes(scaled, targets, rows, strength, seed)
    else:
        columns = [_task(scaled, column, rows, strength, seed) for column in targets.T]
        coefficients = np.column_stack([weight for weight, _ in columns])
        bias = np.array([value for _, value in columns])
    return LinearModel(weights=(coefficients * inverse[:, None])[:width], bias=bias)


def _scales(features: csr_array, scaling: Scaling) -> Array:
    """Return the scale of every column; 1 for a constant column."""
    wide = features.astype(np.float64)
    if scaling == "max":
        scale = abs(wide).max(axis=0).toarray().ravel()
    else:
        mean, square = wide.mean(axis=0), wide.power(2).mean(axis=0)
        scale = np.sqrt(np.maximum(square - mean**2, 0))
        scale[scale <= EPSILON * np.sqrt(square)] = 0  # a constant, up to rounding
    if scaling == "norm":
        scale = np.full(len(scale), np.sqrt((scale**2).sum()))
    return np.where(scale > 0, scale, 1)


def _diagonal(values: Array) -> Any:  # noqa: ANN401
    from scipy.sparse import csr_array

    size = len(values)
    return csr_array((values, np.arange(size), np.arange(size + 1)), shape=(size, size))


def _classes(
    features: csr_array, y: Array, weights: Array, strength: float, seed: int
) -> tuple[Array, Array]:
    """Return coefficients ``[F, C]`` and bias ``[C]`` of logits of classes with soft labels."""
    graph, label = np.nonzero(np.nan_to_num(y) > 0)
    share = y[graph, label] * weights[graph]
    coefficients = np.zeros((features.shape[1], y.shape[1]))
    bias = np.full(y.shape[1], ABSENT_LOGIT)
    classes = np.unique(label[share > 0])
    if len(classes) == 0:
        raise StageError("no training example has a label. Add labels to them.")
    if len(classes) == 1:
        bias[classes] = 0
        return coefficients, bias
    coef, intercept = _logistic(features[graph], label, share, strength, seed)
    if len(classes) == 2:  # one function, the logit of the second class
        coef, intercept = np.vstack([-coef, coef]) / 2, np.hstack([-intercept, intercept]) / 2
    coefficients[:, classes], bias[classes] = coef.T, intercept
    return coefficients, bias


def _task(
    features: csr_array, y: Array, weights: Array, strength: float, seed: int
) -> tuple[Array, float]:
    """Return coefficients ``[F]`` and bias of the logit of one binary task."""
    labelled = np.flatnonzero(~np.isnan(y))
    graph = np.concatenate([labelled, labelled])
    label = np.repeat([0, 1], len(labelled))
    share = np.concatenate([1 - y[labelled], y[labelled]]) * weights[graph]
    kept = share > 0
    if len(np.unique(label[kept])) < 2:
        total = share.sum()
        rate = share[label == 1].sum() / total if total > 0 else 0.5
        rate = np.clip(rate, EPSILON, 1 - EPSILON)
        return np.zeros(features.shape[1]), float(np.log(rate / (1 - rate)))
    coef, intercept = _logistic(features[graph[kept]], label[kept], share[kept], strength, seed)
    return coef[0], float(intercept[0])


def _logistic(
    features: csr_array, label: Array, share: Array, strength: float, seed: int
) -> tuple[Array, Array]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / strength, max_iter=MAX_ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, label, sample_weight=share)
    return model.coef_, model.intercept_


def _ridge(features: csr_array, y: Array, weights: Array, strength: float) -> tuple[Array, Array]:
    """Return coefficients ``[F, C]`` and bias ``[C]`` of values; each task has its own examples."""
    from sklearn.linear_model import Ridge

    coefficients, bias = np.zeros((features.shape[1], y.shape[1])), np.zeros(y.shape[1])
    for task, values in enumerate(y.T):
        labelled = np.flatnonzero(~np.isnan(values) & (weights > 0))
        if not len(labelled):
            continue
        model = Ridge(alpha=strength, solver="sparse_cg", tol=1e-6, max_iter=10 * MAX_ITERATIONS)
        target = values[labelled].astype(np.float64)
        model.fit(features[labelled], target, sample_weight=weights[labelled])
        coefficients[:, task], bias[task] = model.coef_, model.intercept_
    return coefficients, bias
