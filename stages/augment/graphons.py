"""Graphons as step functions: estimated from aligned graphs, and graphs sampled from them.

Nodes are aligned by degree, so that place 0 is the node with most neighbors (Han et al. 2022).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gsx.ragged import Array, Ints, pointers, rows_of
from gsx.stages.graphs.edges import global_edges
from gsx.table import GraphTable

Floats = npt.NDArray[np.float64]

THRESHOLD = 2.02
"""What a singular value must reach, as a multiple of what noise of the mean gives."""
ROUNDS = 4
"""Times the diagonal is told from the rest."""
DRAWS = 1 << 21
"""Numbers drawn at once."""


def places(graphs: GraphTable) -> Ints:
    """Return the place of every node in its graph when nodes are sorted by falling degree."""
    src, _ = global_edges(graphs)
    degree = np.bincount(src, minlength=graphs.total_nodes)
    order = np.lexsort((-degree, rows_of(graphs.node_ptr)))
    place = np.empty(graphs.total_nodes, dtype=np.int64)
    place[order] = np.arange(graphs.total_nodes) - np.repeat(graphs.node_ptr[:-1], graphs.num_nodes)
    return place


def mean_adjacency(graphs: GraphTable, place: Ints, size: int) -> Floats:
    """Return how often nodes at two places are joined, ``[size, size]``; further places are cut.

    Self-loops do not count, and edges between the same two nodes count once.
    """
    src, dst = global_edges(graphs)
    first, second = place[src], place[dst]
    inside = (first < size) & (second < size) & (first != second)
    cells = size * size
    code = np.unique((graphs.edge_graph() * size + first)[inside] * size + second[inside])
    found = np.bincount(code % cells, minlength=cells).reshape(size, size) / max(len(graphs), 1)
    return np.maximum(found, found.T)


def graphon_of(mean: Floats, graphs: int) -> Floats:
    """Estimate a graphon from the mean adjacency of some graphs, by thresholding singular values.

    Chatterjee's threshold for entries of variance v is (2 + η) sqrt(n v). The mean over m graphs
    leaves v / m of the variance of an edge, which is told from the mean itself. Nothing is known of
    the diagonal: it is taken to be what the rest says of it, in a few rounds. The largest value
    always stays; a place that no graph has is joined to none.
    """
    size = len(mean)
    least = THRESHOLD * np.sqrt(size * float((mean * (1 - mean)).mean()) / max(graphs, 1))
    found, diagonal = mean, mean.sum(axis=1) / max(size - 1, 1)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(mean + np.diag(diagonal))
        strength = np.abs(values)
        keep = strength >= min(least, float(strength.max()))
        found = (vectors[:, keep] * values[keep]) @ vectors[:, keep].T
        diagonal = np.clip(np.diagonal(found), 0, 1)
    found = np.clip((found + found.T) / 2, 0, 1)
    np.fill_diagonal(found, 0)
    bare = ~mean.any(axis=1)
    found[bare] = found[:, bare] = 0
    return np.asarray(found)


def sample_edges(
    graphons: Floats, chosen: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Draw a graph of every graphon ``chosen`` of ``graphons`` ``[P, K, K]``.

    Returns the graph and the two places of every edge, the smaller place first, sorted.
    """
    first, second = np.triu_indices(graphons.shape[1], 1)
    odds = graphons[:, first, second]
    some = np.flatnonzero(odds.max(axis=0, initial=0) > 0)
    first, second, odds = first[some], second[some], odds[:, some]
    step = max(DRAWS // max(len(some), 1), 1)
    graph, entry = [], []
    for start in range(0, len(chosen), step):
        part = odds[chosen[start : start + step]]
        row, cell = np.nonzero(stream.random(part.shape) < part)
        graph.append(start + row)
        entry.append(cell)
    at = np.concatenate(entry) if entry else np.zeros(0, dtype=np.int64)
    owner = np.concatenate(graph) if graph else np.zeros(0, dtype=np.int64)
    return owner, first[at], second[at]


def draw_of_groups(ptr: Ints, group: Ints, stream: np.random.Generator) -> Ints:
    """Draw one item of ``ptr[g]:ptr[g + 1]`` for every group asked for, which must not be empty."""
    count = ptr[group + 1] - ptr[group]
    return ptr[group] + (stream.random(len(group)) * count).astype(np.int64)


def group_items(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return items sorted by group, and pointers to each group among them."""
    order: Array = np.argsort(group, kind="stable")
    return order, pointers(np.bincount(group, minlength=groups))
