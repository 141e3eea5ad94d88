"""Rank matching: pair nodes of two graphs by the rank of their selected features.

Some features combine a property of the node with one of the environment, such as brightness times
color. Extrapolating all nodes away from one node of a partner then changes the node property, too.
Nodes of equal rank have similar node properties, so they differ mostly by the environment. This is
one-dimensional optimal transport: nodes are sorted by the sum of their selected features.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats

_CHUNK_NODES = 1 << 16
"""Nodes processed at once, to bound memory if there are many features."""


def rank_keys(features: Array, selected: Array, ranges: FeatureRanges) -> Floats:
    """Return two sort keys per node from features ``[N, F]``, ``[N, 2]``.

    The first is the sum of the selected features, each scaled to its range. The second breaks ties:
    it gives later features a larger weight.
    """
    columns = np.flatnonzero(selected)
    low, high = ranges.low[columns], ranges.high[columns]
    length, weight = np.where(high > low, high - low, 1.0), np.linspace(1.0, 2.0, len(columns))
    keys = np.empty((len(features), 2))
    for start in range(0, len(features), _CHUNK_NODES):
        rows = slice(start, start + _CHUNK_NODES)
        scaled = (features[rows].take(columns, axis=1) - low) / length
        keys[rows] = np.column_stack([scaled.sum(axis=1), (scaled * weight).sum(axis=1)])
    return keys


def rank_order(keys: Floats, ptr: Ints) -> Ints:
    """Return the nodes of every graph sorted by their keys, graph after graph, ``[N]``."""
    return np.lexsort((keys[:, 1], keys[:, 0], row_indices(ptr)))


def equal_rank_positions(keys: Floats, ptr: Ints, size: Ints) -> Ints:
    """Return for every node the position of equal rank among ``size`` ``[G]`` sorted nodes.

    Positions start at 0. Nodes with equal keys share the middle position, so the result does not
    depend on the order of nodes.
    """
    order, graph = rank_order(keys, ptr), row_indices(ptr)
    sorted_keys = keys[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (sorted_keys[1:] != sorted_keys[:-1]).any(axis=1) | (graph[1:] != graph[:-1])
    start = np.append(np.flatnonzero(is_new), len(order))
    middle = np.repeat((start[:-1] + start[1:]) / 2, np.diff(start))
    quantile = (middle - ptr[graph]) / np.diff(ptr)[graph]
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.minimum((quantile * size[graph]).astype(np.int64), size[graph] - 1)
    return position
