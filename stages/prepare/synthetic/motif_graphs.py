"""Motif graphs: a base graph, an attached motif of five nodes, and a few random edges.

Bases, motifs and rules are those of the Motif benchmark. Functions process all graphs at once; the
only loop is over perturbation attempts, one per twenty edges of a graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gsx.ragged import Array, Ints, pointers, ranges, row_indices

Bools = npt.NDArray[np.bool_]

BASES = ("wheel", "tree", "ladder", "star", "path")
"""Kinds of base graphs by id."""
MOTIFS = ("house", "cycle", "crane")
"""Motifs by id; the motif is the true class of a graph."""
MOTIF_NODES = 5
"""Nodes of every motif, numbered after those of the base."""
LABEL_NOISE = 0.1
"""Share of labels that are replaced by a random motif."""
PERTURBATION = 0.05
"""Attempts to add an edge, per edge of a graph."""

_MOTIF_EDGES = np.array(
    [
        [(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 4)],
        [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 4)],
        [(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)],
    ]
)
"""``[3, 6, 2]``; the cycle has five edges and repeats its last."""
_MOTIF_EDGE_COUNT = np.array([6, 5, 6])


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """Base graphs, each undirected edge once."""

    node_ptr: Ints
    """``[G + 1]`` pointers into the nodes."""
    edge_ptr: Ints
    """``[G + 1]`` pointers into the edges."""
    edge_u: Ints
    """``[E]`` local id of one end, increasing within each graph."""
    edge_v: Ints
    """``[E]`` local id of the other end."""
    receptive: Bools
    """``[N]`` nodes that perturbation may give an edge: all of a wheel, tree or ladder, the hub of
    a star, the inner nodes of a path."""

    def take(self, rows: Ints) -> Bases:
        """Return the given base graphs in the given order."""
        num_nodes = np.diff(self.node_ptr)[rows]
        num_edges = np.diff(self.edge_ptr)[rows]
        edge = ranges(self.edge_ptr[rows], num_edges)
        return Bases(
            node_ptr=pointers(num_nodes),
            edge_ptr=pointers(num_edges),
            edge_u=self.edge_u[edge],
            edge_v=self.edge_v[edge],
            receptive=self.receptive[ranges(self.node_ptr[rows], num_nodes)],
        )


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
    """Build one graph per row from the kind and width of its base and from its motif, ``[G]``."""
    # A thousand graphs have a hundred shapes; each is drawn up once.
    shapes, shape = np.unique(width * len(BASES) + kind, return_inverse=True)
    base = bases(shapes % len(BASES), shapes // len(BASES)).take(shape)
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


def bases(kind: Ints, width: Ints) -> Bases:
    """Return the base graphs of the given kinds and widths ``[G]``; a width is at least 1.

    A wheel or path has ``w`` nodes, a ladder ``2 w``, a star ``w`` leaves. A tree is binary and
    full, of height ``max(1, floor(log2 w) - 1)``.
    """
    height = np.maximum(1, np.frexp(width)[1].astype(np.int64) - 2)
    sizes = [width, 2 ** (height + 1) - 1, 2 * width, width + 1, width]
    node_ptr = pointers(np.choose(kind, sizes))
    row = row_indices(node_ptr)
    node = np.arange(node_ptr[-1], dtype=np.int64) - node_ptr[row]
    kinds, widths = kind[row], width[row]

    # A node names at most two neighbors, and no edge is named by both of its ends.
    along_rail = np.where(node == widths, -1, node - 1)
    along_rim = np.where(node == 1, np.where(widths > 3, widths - 1, -1), node - 1)
    across_rung = np.maximum(node - widths, -1)
    first = np.choose(kinds, [0, (node - 1) // 2, along_rail, 0, node - 1])
    first[node == 0] = -1
    second = np.choose(kinds, [along_rim, -1, across_rung, -1, -1])
    links = np.column_stack([first, second])
    owner = np.nonzero(links >= 0)[0]

    inner = (node > 0) & (node < widths - 1)
    return Bases(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(row[owner], minlength=len(kind))),
        edge_u=node[owner],
        edge_v=links[links >= 0],
        receptive=np.choose(kinds, [True, True, True, node == 0, inner]),
    )


def attach(base: Bases, motif: Ints, anchor: Ints) -> Adjacency:
    """Add to each base its motif, whose node 0 gets an edge to base node ``anchor`` ``[G]``."""
    base_nodes, base_edges = np.diff(base.node_ptr), np.diff(base.edge_ptr)
    num_nodes = base_nodes + MOTIF_NODES
    ptr = pointers(num_nodes**2)
    start, motif_edges = ptr[:-1], base_nodes[:, None, None] + _MOTIF_EDGES[motif]
    cells = np.zeros(ptr[-1], dtype=np.bool_)
    for first, row, u, v in (
        (np.repeat(start, base_edges), np.repeat(num_nodes, base_edges), base.edge_u, base.edge_v),
        (start[:, None], num_nodes[:, None], motif_edges[..., 0], motif_edges[..., 1]),
        (start, num_nodes, base_nodes, anchor),
    ):
        cells[first + u * row + v] = True
        cells[first + v * row + u] = True
    num_edges = base_edges + _MOTIF_EDGE_COUNT[motif] + 1
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


def noisy_labels(motif: Ints, generator: np.random.Generator) -> Ints:
    """Return the motif of each graph; one in ten is replaced by a random motif."""
    noisy = generator.random(len(motif)) < LABEL_NOISE
    return np.where(noisy, generator.integers(0, len(MOTIFS), len(motif)), motif)
