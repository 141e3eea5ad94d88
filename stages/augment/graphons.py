"""Graphons as step functions: estimate them from aligned graphs, and sample graphs from them.

Nodes are aligned by degree: rank 0 is the node with the most neighbors (Han et al. 2022).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gsx.ragged import Array, Ints, pointers, row_indices
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

Floats = npt.NDArray[np.float64]

THRESHOLD = 2.02
"""Threshold of singular values, as a multiple of those of pure noise: 2 + η."""
DIAGONAL_ROUNDS = 4
"""Iterations that estimate the diagonal from the other entries."""
CHUNK_DRAWS = 1 << 21
"""Random numbers drawn at once."""


def degree_ranks(graphs: GraphTable) -> Ints:
    """Return the rank of every node in its graph by descending degree, ``[N]``."""
    src, _ = global_edges(graphs)
    degree = np.bincount(src, minlength=graphs.total_nodes)
    order = np.lexsort((-degree, row_indices(graphs.node_ptr)))
    rank = np.empty(graphs.total_nodes, dtype=np.int64)
    rank[order] = np.arange(graphs.total_nodes) - np.repeat(graphs.node_ptr[:-1], graphs.num_nodes)
    return rank


def mean_adjacency(graphs: GraphTable, rank: Ints, size: int) -> Floats:
    """Return the share of graphs in which two ranks are connected, ``[size, size]``.

    Higher ranks are cut off. Self-loops do not count, and parallel edges count once.
    """
    src, dst = global_edges(graphs)
    first, second = rank[src], rank[dst]
    inside = (first < size) & (second < size) & (first != second)
    cells = size * size
    code = np.unique((graphs.edge_graph() * size + first)[inside] * size + second[inside])
    mean = np.bincount(code % cells, minlength=cells).reshape(size, size) / max(len(graphs), 1)
    return np.maximum(mean, mean.T)


def universal_singular_value_threshold(mean: Floats, graphs: int) -> Floats:
    """Estimate a graphon from the mean adjacency of ``graphs`` graphs (USVT, Chatterjee 2015).

    The threshold for entries of variance v is (2 + η) sqrt(n v). The mean over m graphs has v / m
    of the variance of an edge, which is estimated from the mean itself. The diagonal is unknown and
    is estimated from the other entries in a few iterations. The largest singular value is always
    kept. Ranks that occur in no graph get no edges.
    """
    size = len(mean)
    threshold = THRESHOLD * np.sqrt(size * float((mean * (1 - mean)).mean()) / max(graphs, 1))
    graphon, diagonal = mean, mean.sum(axis=1) / max(size - 1, 1)
    for _ in range(DIAGONAL_ROUNDS):
        values, vectors = np.linalg.eigh(mean + np.diag(diagonal))
        singular_values = np.abs(values)
        keep = singular_values >= min(threshold, float(singular_values.max()))
        graphon = (vectors[:, keep] * values[keep]) @ vectors[:, keep].T
        diagonal = np.clip(np.diagonal(graphon), 0, 1)
    graphon = np.clip((graphon + graphon.T) / 2, 0, 1)
    np.fill_diagonal(graphon, 0)
    isolated = ~mean.any(axis=1)
    graphon[isolated] = graphon[:, isolated] = 0
    return np.asarray(graphon)


def sample_edges(
    graphons: Floats, chosen: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Sample one graph from each graphon ``chosen`` of ``graphons`` ``[P, K, K]``.

    Returns the graph and the two ranks of every edge, the smaller rank first, sorted by graph.
    """
    first, second = np.triu_indices(graphons.shape[1], 1)
    probability = graphons[:, first, second]
    possible = np.flatnonzero(probability.max(axis=0, initial=0) > 0)
    first, second, probability = first[possible], second[possible], probability[:, possible]
    step = max(CHUNK_DRAWS // max(len(possible), 1), 1)
    graphs, entries = [], []
    for start in range(0, len(chosen), step):
        chunk = probability[chosen[start : start + step]]
        row, entry = np.nonzero(stream.random(chunk.shape) < chunk)
        graphs.append(start + row)
        entries.append(entry)
    entry = np.concatenate(entries) if entries else np.zeros(0, dtype=np.int64)
    graph = np.concatenate(graphs) if graphs else np.zeros(0, dtype=np.int64)
    return graph, first[entry], second[entry]


def sample_from_groups(ptr: Ints, group: Ints, stream: np.random.Generator) -> Ints:
    """Draw one item of ``ptr[g]:ptr[g + 1]`` for every group g; the groups must not be empty."""
    count = ptr[group + 1] - ptr[group]
    return ptr[group] + (stream.random(len(group)) * count).astype(np.int64)


def sort_by_group(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return items sorted by group, and the start of each of the ``groups`` groups."""
    order: Array = np.argsort(group, kind="stable")
    return order, pointers(np.bincount(group, minlength=groups))
