"""Sparse cuts: split graphs into two connected sides to obtain training examples for bridges.

Deleting one edge of a random spanning tree leaves two connected sides. The edges between the sides
are the bridges that a bridge model learns to predict. Sparse cuts, with few crossing edges per node
of the smaller side, resemble joints between components most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from gsx.ragged import Ints, pointers, ranges, row_indices
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges
from gsx.table import GraphTable

CUTS_PER_GRAPH = 6
"""Random cuts per graph, of which the sparsest is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """One cut per graph, where the graph can be cut."""

    side: npt.NDArray[np.int8]
    """``[N]`` side of every node, 0 or 1; -1 for nodes in other connected components and in graphs
    without a cut."""
    cut: Bools
    """``[G]`` whether the graph has a cut."""


def sparse_cuts(
    table: GraphTable,
    stream: np.random.Generator,
    *,
    may_cut: Bools | None = None,
    tries: int = CUTS_PER_GRAPH,
) -> Cuts:
    """Draw ``tries`` random cuts per graph and keep the one with the lowest cost.

    The cost is the number of crossing edges per node of the smaller side. ``may_cut`` ``[E]`` marks
    the tree edges that may be deleted; without it, all may.
    """
    src, dst = global_edges(table)
    owner = row_indices(table.node_ptr)
    up = src < dst
    allowed = up if may_cut is None else up & may_cut
    best = np.full(len(table), np.inf)
    side = np.full(table.total_nodes, -1, dtype=np.int8)
    for _ in range(tries):
        drawn = _random_cut(src[up], dst[up], allowed[up], owner, len(table), stream)
        cost = _cost(drawn, src, dst, owner, len(table))
        better = cost < best
        best[better] = cost[better]
        side = np.where(better[owner], drawn, side).astype(np.int8)
    return Cuts(side, np.isfinite(best))


def _random_cut(
    src: Ints, dst: Ints, allowed: Bools, owner: Ints, graphs: int, stream: np.random.Generator
) -> npt.NDArray[np.int8]:
    size = len(owner)
    weight = stream.random(len(src)) + 0.5
    # Keep one of several parallel edges, since a sparse matrix would sum their weights.
    code = src * size + dst
    order = np.argsort(code, kind="stable")
    first = np.ones(len(order), dtype=bool)
    first[1:] = code[order[1:]] != code[order[:-1]]
    single = order[first]
    matrix = csr_array((weight[single], (src[single], dst[single])), shape=(size, size))
    tree = minimum_spanning_tree(matrix).tocoo()
    left, right = tree.row.astype(np.int64), tree.col.astype(np.int64)
    may = allowed[single[np.searchsorted(code[single], left * size + right)]]
    by_graph = np.lexsort((right, left, owner[left]))
    left, right, may = left[by_graph], right[by_graph], may[by_graph]
    choice = np.flatnonzero(may)
    counts = np.bincount(owner[left[choice]], minlength=graphs)
    picked = (stream.random(graphs) * counts).astype(np.int64) + pointers(counts)[:-1]
    deleted = choice[picked[counts > 0]]
    keep = np.ones(len(left), dtype=bool)
    keep[deleted] = False
    rest = csr_array((np.ones(keep.sum()), (left[keep], right[keep])), shape=(size, size))
    _, label = connected_components(rest, directed=False)
    ends = np.full((2, graphs), -1, dtype=np.int64)
    ends[0, owner[left[deleted]]] = label[left[deleted]]
    ends[1, owner[left[deleted]]] = label[right[deleted]]
    side = np.full(size, -1, dtype=np.int8)
    side[label == ends[0, owner]] = 0
    side[label == ends[1, owner]] = 1
    return side


def _cost(side: npt.NDArray[np.int8], src: Ints, dst: Ints, owner: Ints, graphs: int) -> Floats:
    """Return crossing edges per node of the smaller side; infinite without a cut."""
    crossing = (side[src] == 0) & (side[dst] == 1)
    edges = np.bincount(owner[src[crossing]], minlength=graphs)
    sizes = [np.bincount(owner[side == s], minlength=graphs) for s in (0, 1)]
    smaller = np.minimum(*sizes)
    return np.where(smaller > 0, edges / np.maximum(smaller, 1), np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Node pairs ``(left, right)`` of two components, concatenated over groups."""

    ptr: Ints
    """``[P + 1]`` offsets of the groups."""
    left: Ints
    right: Ints


def all_pairs(left_start: Ints, left_count: Ints, right_start: Ints, right_count: Ints) -> Pairs:
    """Return every pair of a left and a right node of each group, left-major.

    >>> one = np.array([1])
    >>> pairs = all_pairs(0 * one, 2 * one, 7 * one, 3 * one)
    >>> pairs.left.tolist(), pairs.right.tolist()
    ([0, 0, 0, 1, 1, 1], [7, 8, 9, 7, 8, 9])
    """
    lefts = ranges(left_start, left_count)
    group = np.repeat(np.arange(len(left_count)), left_count)
    width = right_count[group]
    left = np.repeat(lefts, width)
    right = ranges(right_start[group], width)
    return Pairs(pointers(left_count * right_count), left, right)
