"""GraphSAINT sampling of one large graph by random walks, with normalization.

GraphSAINT (Zeng et al. 2020): a sample is the subgraph induced by all nodes that random walks
visit. Nodes and edges in many samples would be over-weighted, so their frequencies are estimated
from samples drawn in advance. Adjacency is CSR with sorted columns and both directions of an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints, pointers, ranges, row_indices

NEVER_SAMPLED_COUNT = 0.1
"""Count assigned to nodes that no sample holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """CSR adjacency: the neighbors of node ``i`` are ``columns[ptr[i]:ptr[i + 1]]``."""

    ptr: Ints
    columns: Ints

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return len(self.ptr) - 1


@dataclass(frozen=True, slots=True, eq=False)
class SamplingNorms:
    """Normalization weights that correct for sampling frequencies."""

    node: Array
    """``[N]`` loss weight of a node: 1 / (expected count per sample * N)."""
    edge: Array
    """``[E]`` weight of a message: samples that hold its target per sample that holds the edge."""


def adjacency_from_edges(src: Ints, dst: Ints, nodes: int) -> Adjacency:
    """Return the adjacency of edges that are sorted by source and target."""
    return Adjacency(pointers(np.bincount(src, minlength=nodes)), dst.astype(np.int64))


def random_walks(
    adjacency: Adjacency, roots: Ints, length: int, stream: np.random.Generator
) -> Ints:
    """Return the nodes ``[R, length + 1]`` of random walks; isolated nodes stay in place."""
    visited = np.empty((len(roots), length + 1), dtype=np.int64)
    visited[:, 0] = here = roots
    for step in range(length):
        degree = adjacency.ptr[here + 1] - adjacency.ptr[here]
        neighbor = (stream.random(len(here)) * degree).astype(np.int64)
        stuck = degree == 0
        edge = np.where(stuck, 0, adjacency.ptr[here] + neighbor)
        here = np.where(stuck, here, adjacency.columns[edge] if len(adjacency.columns) else here)
        visited[:, step + 1] = here
    return visited


def sample_nodes(
    adjacency: Adjacency, roots: int, length: int, stream: np.random.Generator
) -> Ints:
    """Return the sorted nodes of one sample; roots are drawn with replacement."""
    starts = stream.integers(0, adjacency.num_nodes, roots)
    return np.unique(random_walks(adjacency, starts, length, stream))


def induced_adjacency(adjacency: Adjacency, nodes: Ints) -> tuple[Adjacency, Ints]:
    """Return the adjacency among ``nodes``, renumbered by position, and the old edge indices."""
    new_id = np.full(adjacency.num_nodes, -1, dtype=np.int64)
    new_id[nodes] = np.arange(len(nodes))
    degree = adjacency.ptr[nodes + 1] - adjacency.ptr[nodes]
    edges = ranges(adjacency.ptr[nodes], degree)
    target = new_id[adjacency.columns[edges]]
    kept = target >= 0
    counts = np.bincount(np.repeat(np.arange(len(nodes)), degree)[kept], minlength=len(nodes))
    return Adjacency(pointers(counts), target[kept]), edges[kept]


def estimate_norms(
    adjacency: Adjacency,
    roots: int,
    length: int,
    coverage: float,
    stream: Callable[[int], np.random.Generator],
) -> SamplingNorms:
    """Estimate normalization from samples that hold each node ``coverage`` times on average.

    ``stream`` returns the random stream of a sample. An edge in no sample counts as if it were in
    one; its weight is 1 if no sample holds its target either.
    """
    node, edge = np.zeros(adjacency.num_nodes), np.zeros(len(adjacency.columns))
    drawn = held = 0
    while held < coverage * adjacency.num_nodes:
        nodes = sample_nodes(adjacency, roots, length, stream(drawn))
        node[nodes] += 1
        edge[induced_adjacency(adjacency, nodes)[1]] += 1
        drawn, held = drawn + 1, held + len(nodes)
    target = node[row_indices(adjacency.ptr)]
    return SamplingNorms(
        node=drawn / np.where(node > 0, node, NEVER_SAMPLED_COUNT) / adjacency.num_nodes,
        edge=np.where(target > 0, target / np.maximum(edge, 1), 1.0),
    )


def gcn_matrix(adjacency: Adjacency, weight: Array | None = None) -> csr_matrix:
    """Return the GCN propagation matrix D^-1/2 (A + I) D^-1/2; rows receive messages.

    Nodes that already have a self-loop get no second one.
    """
    nodes = adjacency.num_nodes
    row = row_indices(adjacency.ptr)
    weight = np.ones(len(row)) if weight is None else weight
    own = np.ones(nodes, dtype=bool)
    own[row[row == adjacency.columns]] = False
    plain = csr_matrix((weight, adjacency.columns, adjacency.ptr), shape=(nodes, nodes))
    loops = csr_matrix(
        (own.astype(np.float64), np.arange(nodes), np.arange(nodes + 1)), shape=(nodes, nodes)
    )
    matrix = csr_matrix(plain + loops)
    total = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.where(total > 0, 1 / np.sqrt(np.where(total > 0, total, 1)), 0)
    matrix.data *= scale[np.repeat(np.arange(nodes), np.diff(matrix.indptr))]
    matrix.data *= scale[matrix.indices]
    matrix.sort_indices()
    return matrix
