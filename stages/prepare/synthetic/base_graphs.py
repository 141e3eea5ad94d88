"""Base graphs of the Motif datasets: ten kinds of graphs of any width, many graphs at once.

The first five kinds are those of the Motif benchmark. Every kind is a function that lists, for each
node, its neighbors with smaller numbers, so that no edge is listed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gsx.ragged import Ints, pointers, ranges, row_indices

Bools = npt.NDArray[np.bool_]

ALL_BASES = (
    "wheel",
    "tree",
    "ladder",
    "star",
    "path",
    "grid",
    "caterpillar",
    "barabasi-albert",
    "cycle",
    "barbell",
)
"""Kinds of base graphs by id."""
BASES = ALL_BASES[:5]
"""Kinds of base graphs of the published benchmark."""
BARABASI_ALBERT = ALL_BASES.index("barabasi-albert")
"""The kind that is random: two graphs of one width differ."""
_LINKS = 2
"""Edges that a new node of a Barabási-Albert graph gets."""


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
    """``[N]`` nodes that perturbation may give an edge: the hub of a star, the inner nodes of a
    path, all nodes of the other kinds."""

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


def bases(kind: Ints, width: Ints, generator: np.random.Generator) -> Bases:
    """Return base graphs of the given kinds and widths ``[G]``; a width ``w`` is at least 1.

    - A wheel or path has ``w`` nodes, a ladder ``2 w``, a star ``w`` leaves.
    - A tree is binary and full, of height ``max(1, floor(log2 w) - 1)``.
    - A grid is the most nearly square one with at least ``w`` nodes, but not smaller than 3 by 3.
    - A caterpillar has ``w`` nodes: a third of them on a path, the others as leaves, two each.
    - A Barabási-Albert graph has ``w`` nodes, of which each new one gets two edges.
    - A cycle has ``2 w`` nodes. It is even, and never equal to the motif `cycle`.
    - A barbell has ``w`` nodes, and at least 7: two cliques of ``max(3, floor(w / 4))`` nodes,
      joined by a path.

    ``generator`` is used for Barabási-Albert graphs only.
    """
    kinds = np.unique(kind)
    rows = [np.flatnonzero(kind == number) for number in kinds]
    groups = [
        _bases_of_kind(ALL_BASES[number], width[of_kind], generator)
        for number, of_kind in zip(kinds, rows, strict=True)
    ]
    place = np.empty(len(kind), dtype=np.int64)
    place[np.concatenate(rows)] = np.arange(len(kind))
    return _concatenate(groups).take(place)


@dataclass(frozen=True, slots=True)
class _Kind:
    num_nodes: Callable[[Ints], Ints]
    """Number of nodes for each width."""
    neighbors: Callable[[Ints, Ints], Ints]
    """Local ids of nodes ``[N]`` and widths of their graphs ``[N]`` → ``[N, K]`` neighbors with
    smaller ids, in any column; -1 fills the row."""
    receptive: Callable[[Ints, Ints], Bools] = lambda node, _: node >= 0
    """Which nodes perturbation may give an edge; default: all."""


def _same(width: Ints) -> Ints:
    return width


def _twice(width: Ints) -> Ints:
    return 2 * width


def _full_tree_nodes(width: Ints) -> Ints:
    height = np.maximum(1, np.frexp(width)[1].astype(np.int64) - 2)
    return 2 ** (height + 1) - 1


def _wheel(node: Ints, width: Ints) -> Ints:
    hub = np.where(node > 0, 0, -1)
    along_rim = np.where(node > 1, node - 1, -1)
    closing = np.where((node == width - 1) & (node > 2), 1, -1)
    return np.column_stack([hub, along_rim, closing])


def _tree(node: Ints, width: Ints) -> Ints:
    del width
    return np.where(node > 0, (node - 1) // 2, -1)[:, None]


def _ladder(node: Ints, width: Ints) -> Ints:
    along_rail = np.where(node == width, -1, node - 1)
    return np.column_stack([along_rail, np.maximum(node - width, -1)])


def _star(node: Ints, width: Ints) -> Ints:
    del width
    return np.where(node > 0, 0, -1)[:, None]


def _path(node: Ints, width: Ints) -> Ints:
    del width
    return node[:, None] - 1


def _grid_shape(width: Ints) -> tuple[Ints, Ints]:
    rows = np.maximum(3, np.sqrt(width).astype(np.int64))
    return rows, np.maximum(3, -(-width // rows))


def _grid_nodes(width: Ints) -> Ints:
    rows, columns = _grid_shape(width)
    return rows * columns


def _grid(node: Ints, width: Ints) -> Ints:
    columns = _grid_shape(width)[1]
    left = np.where(node % columns > 0, node - 1, -1)
    return np.column_stack([left, np.maximum(node - columns, -1)])


def _caterpillar(node: Ints, width: Ints) -> Ints:
    path = -(-width // 3)
    return np.where(node < path, node - 1, (node - path) // 2)[:, None]


def _cycle(node: Ints, width: Ints) -> Ints:
    closing = np.where((node == 2 * width - 1) & (width > 1), 0, -1)
    return np.column_stack([node - 1, closing])


def _clique_nodes(width: Ints) -> Ints:
    return np.maximum(3, width // 4)


def _barbell_nodes(width: Ints) -> Ints:
    return np.maximum(width, 2 * _clique_nodes(width) + 1)


def _barbell(node: Ints, width: Ints) -> Ints:
    clique = _clique_nodes(width)
    second = _barbell_nodes(width) - clique
    # A node of a clique lists those before it, and all other nodes list one.
    count = np.select([node < clique, node <= second], [node, 1], node - second)
    place = np.arange(count.max(initial=0))
    return np.where(place < count[:, None], node[:, None] - 1 - place, -1)


_KINDS = {
    "wheel": _Kind(_same, _wheel),
    "tree": _Kind(_full_tree_nodes, _tree),
    "ladder": _Kind(_twice, _ladder),
    "star": _Kind(lambda width: width + 1, _star, lambda node, _: node == 0),
    "path": _Kind(_same, _path, lambda node, width: (node > 0) & (node < width - 1)),
    "grid": _Kind(_grid_nodes, _grid),
    "caterpillar": _Kind(_same, _caterpillar),
    "cycle": _Kind(_twice, _cycle),
    "barbell": _Kind(_barbell_nodes, _barbell),
}


def _bases_of_kind(name: str, width: Ints, generator: np.random.Generator) -> Bases:
    if name == ALL_BASES[BARABASI_ALBERT]:
        neighbors = barabasi_albert_neighbors(width, generator)
        return _from_neighbors(width, neighbors, np.ones(len(neighbors), dtype=np.bool_))
    kind = _KINDS[name]
    num_nodes = kind.num_nodes(width)
    ptr = pointers(num_nodes)
    row = row_indices(ptr)
    node = np.arange(ptr[-1], dtype=np.int64) - ptr[row]
    widths = width[row]
    return _from_neighbors(num_nodes, kind.neighbors(node, widths), kind.receptive(node, widths))


def _from_neighbors(num_nodes: Ints, neighbors: Ints, receptive: Bools) -> Bases:
    """Return the graphs whose nodes list ``neighbors`` ``[N, K]``, with -1 for none."""
    node_ptr = pointers(num_nodes)
    row = row_indices(node_ptr)
    node = np.nonzero(neighbors >= 0)[0]
    return Bases(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(row[node], minlength=len(num_nodes))),
        edge_u=node - node_ptr[row[node]],
        edge_v=neighbors[neighbors >= 0],
        receptive=receptive,
    )


def barabasi_albert_neighbors(width: Ints, generator: np.random.Generator) -> Ints:
    """Draw Barabási-Albert graphs of ``width`` ``[G]`` nodes; return earlier neighbors ``[N, 2]``.

    The distribution is that of ``networkx.barabasi_albert_graph(width, 2)``: a star with two leaves
    grows by nodes with two edges each. Their distinct ends are drawn in proportion to degree. The
    loop is over new nodes, for all graphs at once. Graphs of less than three nodes are paths.
    """
    largest = int(width.max(initial=0))
    neighbors = np.full((len(width), largest, _LINKS), -1, dtype=np.int64)
    neighbors[:, 1:3, 0] = 0
    # Every node once per edge, so that a uniform draw is proportional to degree.
    ends = np.zeros((len(width), max(4, 4 * (largest - 2))), dtype=np.int64)
    ends[:, :4] = (0, 1, 0, 2)
    for node in range(3, largest):
        rows, filled = np.flatnonzero(width > node), 4 * (node - 2)
        first = ends[rows, generator.integers(0, filled, len(rows))]
        second = first.copy()
        while len(equal := np.flatnonzero(first == second)):
            second[equal] = ends[rows[equal], generator.integers(0, filled, len(equal))]
        neighbors[rows, node] = np.column_stack([first, second])
        ends[rows, filled : filled + 4] = np.column_stack(
            [first, second, np.full((len(rows), 2), node)]
        )
    return neighbors[np.arange(largest) < width[:, None]]


def _concatenate(groups: Sequence[Bases]) -> Bases:
    """Return the base graphs of all groups in order."""
    return Bases(
        node_ptr=pointers(np.concatenate([np.diff(group.node_ptr) for group in groups])),
        edge_ptr=pointers(np.concatenate([np.diff(group.edge_ptr) for group in groups])),
        edge_u=np.concatenate([group.edge_u for group in groups]),
        edge_v=np.concatenate([group.edge_v for group in groups]),
        receptive=np.concatenate([group.receptive for group in groups]),
    )
