"""Nodes of equal rank in two graphs: the darkest meets the darkest, the brightest the brightest.

Where a feature says both what a node is and where its graph comes from, as brightness times color
does, one node of a partner for all nodes moves what they are. Nodes of equal rank are alike in
what they are, so their difference is what the graphs differ in. This is the coupling of optimal
transport in one dimension: nodes are ordered by the sum of their chosen features.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, rows_of
from gsx.stages.graphs.feature_variance import Domains, Floats

_AT_ONCE = 1 << 16
"""Nodes in hand at once: features may be many, and keys are two."""


def node_keys(features: Array, chosen: Array, domains: Domains) -> Floats:
    """Return what nodes ``[N, F]`` are ordered by: their sum of shares of domains, ``[N, 2]``.

    Where sums are equal a second one, in which later features weigh more, decides.
    """
    columns = np.flatnonzero(chosen)
    low, high = domains.low[columns], domains.high[columns]
    length, weight = np.where(high > low, high - low, 1.0), np.linspace(1.0, 2.0, len(columns))
    found = np.empty((len(features), 2))
    for start in range(0, len(features), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        share = (features[rows].take(columns, axis=1) - low) / length
        found[rows] = np.column_stack([share.sum(axis=1), (share * weight).sum(axis=1)])
    return found


def by_rank(keys: Floats, ptr: Ints) -> Ints:
    """Return the nodes of every graph in the order of their keys, graph after graph ``[N]``."""
    return np.lexsort((keys[:, 1], keys[:, 0], rows_of(ptr)))


def equal_rank(keys: Floats, ptr: Ints, size: Ints) -> Ints:
    """Return, per node, the place of equal rank among ``size`` ``[G]`` others, from 0.

    Nodes with equal keys have one place, in their middle: the order of nodes does not matter.
    """
    order, graph = by_rank(keys, ptr), rows_of(ptr)
    sorted_keys = keys[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (sorted_keys[1:] != sorted_keys[:-1]).any(axis=1) | (graph[1:] != graph[:-1])
    start = np.append(np.flatnonzero(fresh), len(order))
    middle = np.repeat((start[:-1] + start[1:]) / 2, np.diff(start))
    share = (middle - ptr[graph]) / np.diff(ptr)[graph]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.minimum((share * size[graph]).astype(np.int64), size[graph] - 1)
    return found
