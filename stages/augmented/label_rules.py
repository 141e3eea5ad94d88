"""Label rules: how labels of components become the label of a spliced graph.

A spliced graph is the union of its components plus bridges. Each component has a coefficient: its
multiplicity for whole graphs and causal subgraphs, 0 for environmental subgraphs, which carry no
label. The paper averages the labels with these coefficients (structural linear extrapolation); the
rules ``any`` and ``all`` are the logical OR and AND of binary labels. For values that depend on
size, ``sum`` adds labels, and ``size-scaled`` moves their mean along the training trend over size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gsx.ragged import Array, Ints

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Sizes that the rule ``size-scaled`` needs."""

    parents: Ints
    """``[P]`` number of nodes of the source graph of every component."""
    graphs: Ints
    """``[G]`` number of nodes of every spliced graph."""
    slope: Floats
    """``[C]`` change of every label per node among training graphs."""


def size_slope(nodes: Ints, y: Array) -> Floats:
    """Return the slope of a linear regression of every label on the number of nodes, ``[C]``.

    0 for labels that are always missing, and if all graphs have the same size.
    """
    slope = np.zeros(y.shape[1])
    for column, values in enumerate(y.T):
        present = ~np.isnan(values)
        size = nodes[present] - nodes[present].mean() if present.any() else nodes[:0]
        if len(size) and size.any():
            slope[column] = size @ values[present].astype(np.float64) / (size @ size)
    return slope


def spliced_labels(
    rule: str, y: Array, coefficients: Floats, counts: Ints, sizes: Sizes | None = None
) -> Array:
    """Return the label of every spliced graph by a label rule; ``size-scaled`` needs ``sizes``.

    ``y`` ``[P, C]`` are the labels of all components, ``coefficients`` ``[P]`` their coefficients,
    and ``counts`` ``[G]`` the number of components of each graph. With a single component that has
    a coefficient, all rules but ``size-scaled`` return its label. Returns ``[G, C]``.
    """
    if rule == "average":
        return average_labels(y, coefficients, counts)
    if rule == "sum":
        graph = np.repeat(np.arange(len(counts)), counts)
        total = np.zeros((len(counts), y.shape[1]))
        votes = coefficients[:, None]
        np.add.at(total, graph, np.where(votes > 0, y * votes, 0))
        return total.astype(np.float32)
    if rule == "size-scaled":
        assert sizes is not None
        without_size = y - sizes.slope * sizes.parents[:, None]
        mean = average_labels(without_size, coefficients, counts)
        return np.asarray(mean + sizes.slope * sizes.graphs[:, None], dtype=np.float32)
    return dominant_labels(y, coefficients, counts, 1.0 if rule == "any" else 0.0)


def average_labels(y: Array, coefficients: Floats, counts: Ints) -> Array:
    """Return the weighted mean of the labels of every graph's components, ``[G, C]``.

    Missing values (NaN) do not count. A task that is missing in all components stays missing.
    """
    graph = np.repeat(np.arange(len(counts)), counts)
    present = ~np.isnan(y)
    weight = present * coefficients[:, None]
    weighted_sum = np.zeros((len(counts), y.shape[1]))
    total_weight = np.zeros_like(weighted_sum)
    np.add.at(weighted_sum, graph, np.where(present, y, 0) * weight)
    np.add.at(total_weight, graph, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total_weight > 0, weighted_sum / total_weight, np.nan).astype(np.float32)


def dominant_labels(y: Array, coefficients: Floats, counts: Ints, dominant: float) -> Array:
    """Return binary labels of graphs where one answer dominates the other, ``[G, C]``.

    With ``dominant`` 1 a graph is positive if any component is (OR). With 0 it is negative if any
    component is (AND). A missing value (NaN) could be the dominant one, so a task with missing
    values and without a dominant answer is missing.
    """
    graph = np.repeat(np.arange(len(counts)), counts)
    labelled = coefficients > 0
    answers = y if dominant else 1 - y
    shape = (len(counts), y.shape[1])
    maximum, has_missing = np.full(shape, -np.inf), np.zeros(shape, dtype=bool)
    np.maximum.at(maximum, graph[labelled], np.nan_to_num(answers[labelled], nan=-np.inf))
    np.logical_or.at(has_missing, graph[labelled], np.isnan(answers[labelled]))
    maximum = np.where((has_missing & (maximum < 1)) | np.isneginf(maximum), np.nan, maximum)
    return np.asarray(maximum if dominant else 1 - maximum, dtype=np.float32)


def hard_labels(y: Array, task: str) -> Array:
    """Return the class of every hard label and -1 for soft labels and other tasks, ``[G]``."""
    if task == "classification":
        best = y.argmax(axis=1)
        return np.where(y.max(axis=1) == 1, best, -1).astype(np.int32)
    if task == "binary" and y.shape[1] == 1:
        return np.where((y[:, 0] == 0) | (y[:, 0] == 1), y[:, 0], -1).astype(np.int32)
    return np.full(len(y), -1, dtype=np.int32)
