"""Samples of one big graph by random walks, and what makes up for how often each part is drawn.

GraphSAINT (Zeng et al. 2020): a sample is the subgraph on all nodes that some random walks visit.
Nodes and edges that many samples hold would count too much; how often each is held is measured on
samples drawn beforehand. Links are CSR with sorted columns, every edge in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints, pointers, ranges, rows_of

UNSEEN = 0.1
"""How often a node counts as held that no sample held."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The neighbors of every node; row ``i`` is ``columns[ptr[i]:ptr[i + 1]]``."""

    ptr: Ints
    columns: Ints

    @property
    def nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.ptr) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """What makes up for how often nodes and edges are drawn."""

    node: Array
    """``[N]`` weight of the loss of a node: 1 over how many a full pass expects of it, over N."""
    edge: Array
    """``[E]`` weight of a message: how often its target was held per time the edge was."""


def links_of(src: Ints, dst: Ints, nodes: int) -> Links:
    """Return the links of edges sorted by source and target."""
    return Links(pointers(np.bincount(src, minlength=nodes)), dst.astype(np.int64))


def walk(links: Links, roots: Ints, length: int, stream: np.random.Generator) -> Ints:
    """Return the nodes ``[R, length + 1]`` of walks; one without neighbors stays where it is."""
    visited = np.empty((len(roots), length + 1), dtype=np.int64)
    visited[:, 0] = here = roots
    for step in range(length):
        degree = links.ptr[here + 1] - links.ptr[here]
        turn = (stream.random(len(here)) * degree).astype(np.int64)
        stuck = degree == 0
        place = np.where(stuck, 0, links.ptr[here] + turn)
        here = np.where(stuck, here, links.columns[place] if len(links.columns) else here)
        visited[:, step + 1] = here
    return visited


def sample(links: Links, roots: int, length: int, stream: np.random.Generator) -> Ints:
    """Return the nodes of one sample in rising order; roots are drawn with replacement."""
    starts = stream.integers(0, links.nodes, roots)
    return np.unique(walk(links, starts, length, stream))


def subgraph(links: Links, nodes: Ints) -> tuple[Links, Ints]:
    """Return the links among ``nodes``, numbered by place, and where each was before."""
    number = np.full(links.nodes, -1, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    degree = links.ptr[nodes + 1] - links.ptr[nodes]
    edges = ranges(links.ptr[nodes], degree)
    target = number[links.columns[edges]]
    kept = target >= 0
    counts = np.bincount(np.repeat(np.arange(len(nodes)), degree)[kept], minlength=len(nodes))
    return Links(pointers(counts), target[kept]), edges[kept]


def measure(
    links: Links,
    roots: int,
    length: int,
    coverage: float,
    stream: Callable[[int], np.random.Generator],
) -> Norms:
    """Draw samples until they hold ``coverage`` nodes per node of the graph, and count.

    ``stream`` gives the random numbers of a sample. An edge that no sample held counts as if one
    had; where its target was never held either, its weight is 1.
    """
    node, edge = np.zeros(links.nodes), np.zeros(len(links.columns))
    drawn = held = 0
    while held < coverage * links.nodes:
        nodes = sample(links, roots, length, stream(drawn))
        node[nodes] += 1
        edge[subgraph(links, nodes)[1]] += 1
        drawn, held = drawn + 1, held + len(nodes)
    target = node[rows_of(links.ptr)]
    return Norms(
        node=drawn / np.where(node > 0, node, UNSEEN) / links.nodes,
        edge=np.where(target > 0, target / np.maximum(edge, 1), 1.0),
    )


def convolution(links: Links, weight: Array | None = None) -> csr_matrix:
    """Return the matrix of a graph convolution: links and a loop of weight 1 per node, scaled.

    A row gathers what its node receives. Both ends are scaled by the root of the sum of the row;
    a node with a loop of its own keeps it.
    """
    nodes = links.nodes
    row = rows_of(links.ptr)
    weight = np.ones(len(row)) if weight is None else weight
    own = np.ones(nodes, dtype=bool)
    own[row[row == links.columns]] = False
    plain = csr_matrix((weight, links.columns, links.ptr), shape=(nodes, nodes))
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
