"""Motif graphs: a base graph, an attached motif, and a few random edges.

Rules, the first five bases and the first three motifs are those of the Motif benchmark. Functions
process all graphs at once; the only loops are over perturbation attempts, one per twenty edges of a
graph, and over the nodes of Barabási-Albert graphs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gsx.ragged import Array, Ints, pointers, ranges
from gsx.stages.prepare.synthetic.base_graphs import (
    ALL_BASES,
    BARABASI_ALBERT,
    Bases,
    Bools,
    bases,
)

_MOTIF_EDGES = {
    "house": ((1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 4)),
    "cycle": ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4)),
    "crane": ((1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)),
    "diamond": ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3)),
    "bull": ((0, 1), (0, 2), (1, 2), (1, 3), (2, 4)),
    "clique": ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)),
    "butterfly": ((0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)),
}
"""Edges of every motif; node 0 is attached to the base. No motif is an induced subgraph of another:
that is why a fan, which contains a diamond, is none of them."""
ALL_MOTIFS = tuple(_MOTIF_EDGES)
"""Motifs by id; the motif is the true class of a graph."""
MOTIFS = ALL_MOTIFS[:3]
"""Motifs of the published benchmark."""
LABEL_NOISE = 0.1
"""Share of labels that are replaced by a random motif."""
PERTURBATION = 0.05
"""Attempts to add an edge, per edge of a graph."""

_EDGE_COUNT = np.array([len(edges) for edges in _MOTIF_EDGES.values()])
_NODE_COUNT = np.array([max(map(max, edges)) + 1 for edges in _MOTIF_EDGES.values()])
_PADDED_EDGES = np.array(
    [edges + edges[-1:] * (int(_EDGE_COUNT.max()) - len(edges)) for edges in _MOTIF_EDGES.values()]
)
"""``[M, E, 2]``; motifs with fewer edges than others repeat their last."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """Undirected graphs as one bitmap; graph ``g`` owns ``num_nodes[g] ** 2`` cells, row by row."""

    num_nodes: Ints
    """``[G]``."""
    num_edges: Ints
    """``[G]``, each undirected edge counted once."""
    ptr: Ints
    """``[G + 1]`` pointers into the cells."""
    cells: Bools
    """``[sum n²]``, symmetric within each graph, false on the diagonals."""

    def edges(self) -> tuple[Ints, Array, Array]:
        """Return pointers ``[G + 1]``, sources and targets of the edges in both directions.

        Edges are ordered by graph, source and target; ends are local numbers.
        """
        counts = 2 * self.num_edges
        at = np.flatnonzero(self.cells)
        at -= np.repeat(self.ptr[:-1], counts)  # in place: most of the time is spent on new memory
        dst = at.astype(np.int32)
        row = np.repeat(self.num_nodes.astype(np.int32), counts)
        src = dst // row
        row *= src
        dst -= row
        return pointers(counts), src, dst


@dataclass(frozen=True, slots=True, eq=False)
class MotifGraphs:
    """Finished graphs: structure, and which nodes are the motif."""

    node_ptr: Ints
    """``[G + 1]`` pointers into the nodes."""
    edge_ptr: Ints
    """``[G + 1]`` pointers into the edges."""
    edge_src: Array
    """``[E]`` int32 local numbers; both directions, ordered by source and target."""
    edge_dst: Array
    """``[E]`` int32 local numbers."""
    node_truth: Array
    """``[N]`` int8, 1 for motif nodes."""


def motif_graphs(
    kind: Ints, width: Ints, motif: Ints, generator: np.random.Generator
) -> MotifGraphs:
    """Build one graph per row from the kind and width of its base and from its motif, ``[G]``.

    Kinds and motifs are indices into ``ALL_BASES`` and ``ALL_MOTIFS``.
    """
    # A thousand graphs have a hundred shapes; each is built once, unless it is random.
    shape_id = width * len(ALL_BASES) + kind
    random = np.flatnonzero(kind == BARABASI_ALBERT)
    shape_id[random] = -1 - np.arange(len(random))
    _, first, shape = np.unique(shape_id, return_index=True, return_inverse=True)
    base = bases(kind[first], width[first], generator).take(shape)
    anchor = generator.integers(0, np.diff(base.node_ptr))
    adjacency = attach(base, motif, anchor)
    node_ptr = pointers(adjacency.num_nodes)
    in_base = ranges(node_ptr[:-1], np.diff(base.node_ptr))
    node_truth = np.ones(node_ptr[-1], dtype=np.int8)
    node_truth[in_base] = 0
    receptive = np.zeros(node_ptr[-1], dtype=np.bool_)
    receptive[in_base] = base.receptive
    edge_ptr, src, dst = perturb(adjacency, receptive, generator).edges()
    return MotifGraphs(node_ptr, edge_ptr, src, dst, node_truth)


def attach(base: Bases, motif: Ints, anchor: Ints) -> Adjacency:
    """Add to each base its motif, whose node 0 gets an edge to base node ``anchor`` ``[G]``."""
    base_nodes, base_edges = np.diff(base.node_ptr), np.diff(base.edge_ptr)
    num_nodes = base_nodes + _NODE_COUNT[motif]
    ptr = pointers(num_nodes**2)
    start, motif_edges = ptr[:-1], base_nodes[:, None, None] + _PADDED_EDGES[motif]
    cells = np.zeros(ptr[-1], dtype=np.bool_)
    for first, row, u, v in (
        (np.repeat(start, base_edges), np.repeat(num_nodes, base_edges), base.edge_u, base.edge_v),
        (start[:, None], num_nodes[:, None], motif_edges[..., 0], motif_edges[..., 1]),
        (start, num_nodes, base_nodes, anchor),
    ):
        cells[first + u * row + v] = True
        cells[first + v * row + u] = True
    num_edges = base_edges + _EDGE_COUNT[motif] + 1
    return Adjacency(num_nodes=num_nodes, num_edges=num_edges, ptr=ptr, cells=cells)


def perturb(adjacency: Adjacency, receptive: Bools, generator: np.random.Generator) -> Adjacency:
    """Return the graphs with random edges added.

    A graph has ``int(0.05 * num_edges)`` attempts. Each draws a pair of distinct nodes without an
    edge, and adds the edge if an end is ``receptive`` ``[N]``; otherwise the attempt has no
    effect. A complete graph has no such pair; no graph with a motif is complete.
    """
    cells, num_edges = adjacency.cells.copy(), adjacency.num_edges.copy()
    num_nodes = adjacency.num_nodes
    start, first_node = adjacency.ptr[:-1], pointers(num_nodes)[:-1]
    num_pairs = num_nodes * (num_nodes - 1) // 2
    attempts = (PERTURBATION * num_edges).astype(np.int64)
    for attempt in range(attempts.max(initial=0)):
        waiting = np.flatnonzero((attempts > attempt) & (num_edges < num_pairs))
        while len(waiting):
            first, row, node = start[waiting], num_nodes[waiting], first_node[waiting]
            u, v = generator.integers(0, row, (2, len(waiting)))
            free = (u != v) & ~cells[first + u * row + v]
            added = free & (receptive[node + u] | receptive[node + v])
            first, row, u, v = first[added], row[added], u[added], v[added]
            cells[first + u * row + v] = True
            cells[first + v * row + u] = True
            num_edges[waiting[added]] += 1
            waiting = waiting[~free]
    return replace(adjacency, num_edges=num_edges, cells=cells)


def noisy_labels(motif: Ints, generator: np.random.Generator, classes: int = len(MOTIFS)) -> Ints:
    """Return the motif of each graph; one in ten is replaced by a random one of ``classes``."""
    noisy = generator.random(len(motif)) < LABEL_NOISE
    return np.where(noisy, generator.integers(0, classes, len(motif)), motif)
