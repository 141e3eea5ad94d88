"""Pieces of graphs: induced subgraphs, connected components, growth from a seed.

All functions work on all graphs of a table at once. Node arrays are ``[N]`` over the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gsx.ragged import Ints, Ragged, pointers, ranges, rows_of
from gsx.stages.graphs.edges import global_edges as global_edges
from gsx.table import GraphTable, Values

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def sort_edges(table: GraphTable) -> GraphTable:
    """Return the graphs with edges sorted by source and target."""
    src, dst = global_edges(table)
    order = np.lexsort((dst, src))
    if (order == np.arange(len(order))).all():
        return table
    return table.with_columns(
        edge={name: _take(values, order) for name, values in table.edge.items()}
    )


def induced(table: GraphTable, keep: Bools) -> tuple[GraphTable, Ints]:
    """Return the subgraphs of the nodes in ``keep`` and, per kept node, its old local number.

    Every graph keeps its row, also when nothing of it is kept.
    """
    src, dst = global_edges(table)
    kept_edge = keep[src] & keep[dst]
    number = np.cumsum(keep) - 1
    owner = rows_of(table.node_ptr)
    node_ptr = pointers(np.bincount(owner[keep], minlength=len(table)))
    edge_owner = table.edge_graph()[kept_edge]
    local = (number - node_ptr[owner]).astype(np.int32)
    part = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(edge_owner, minlength=len(table))),
        graph=table.graph,
        node={name: _take(values, np.flatnonzero(keep)) for name, values in table.node.items()},
        edge={
            **{
                name: _take(values, np.flatnonzero(kept_edge))
                for name, values in table.edge.items()
            },
            "edge_src": local[src[kept_edge]],
            "edge_dst": local[dst[kept_edge]],
        },
    )
    old = np.arange(table.total_nodes) - table.node_ptr[owner]
    return part, old[keep]


def components(table: GraphTable, keep: Bools | None = None) -> Ints:
    """Return the connected component of every node, ``[N]``, numbered over the whole table.

    With ``keep``, only edges between kept nodes connect.
    """
    # Not needed to make or describe a corpus, which works without scipy.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    src, dst = global_edges(table)
    if keep is not None:
        inside = keep[src] & keep[dst]
        src, dst = src[inside], dst[inside]
    size = table.total_nodes
    matrix = csr_array((np.ones(len(src), dtype=np.int8), (src, dst)), shape=(size, size))
    _, label = connected_components(matrix, directed=False)
    return np.asarray(label, dtype=np.int64)


def is_connected(table: GraphTable) -> Bools:
    """Say of every graph whether it is connected, ``[G]``; a graph without nodes is."""
    label = components(table)
    owner = rows_of(table.node_ptr)
    first = np.zeros(int(label.max(initial=-1)) + 1, dtype=np.int64)
    first[label] = owner
    return np.asarray(np.bincount(first, minlength=len(table)) <= 1)


def largest_component(table: GraphTable, keep: Bools) -> Bools:
    """Return the mask of the largest connected part of the kept nodes of every graph."""
    label = components(table, keep)
    size = np.bincount(label[keep], minlength=int(label.max(initial=-1)) + 1)
    owner = rows_of(table.node_ptr)
    kept = np.flatnonzero(keep)
    order = kept[np.lexsort((label[kept], -size[label[kept]], owner[kept]))]
    first = np.ones(len(order), dtype=bool)
    first[1:] = owner[order[1:]] != owner[order[:-1]]
    best = np.full(len(table), -1, dtype=np.int64)
    best[owner[order[first]]] = label[order[first]]
    return np.asarray(keep & (label == best[owner]))


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """Connected sets that grew node by node: prefixes of ``order`` are nested connected sets."""

    order: Ints
    """``[G, K]`` nodes over the whole table in the order in which they joined; -1 after the end."""
    length: Ints
    """``[G]`` nodes that joined."""
    whole: Bools
    """``[G, K + 1]`` whether the prefix of so many nodes exists and cuts no unit."""

    def rounded(self, sizes: Ints) -> Ints:
        """Return, for every graph, the largest size up to ``sizes`` ``[G]`` that cuts no unit.

        Where only larger ones do, the smallest of them; where none does, 0.
        """
        places = np.arange(self.whole.shape[1])
        usable = self.whole & (places > 0)
        below = np.where(usable & (places <= sizes[:, None]), places, 0).max(axis=1)
        above = np.where(usable, places, places[-1] + 1).min(axis=1)
        return np.where(below > 0, below, np.where(above > places[-1], 0, above))


def grow(
    table: GraphTable, score: Floats, seed: Ints, steps: int, unit: Ints | None = None
) -> Growth:
    """Grow one connected set per graph from ``seed`` ``[G]``, always by the best neighbor.

    ``seed`` holds nodes over the whole table, -1 for graphs to leave out. Edges must be sorted by
    source. Ties go to the lower node. ``unit`` ``[N]`` numbers connected groups of nodes, from 0 in
    each graph: the rest of a unit joins before any other node does.
    """
    src, dst = global_edges(table)
    graphs, size = len(table), table.total_nodes
    owner = rows_of(table.node_ptr)
    edge_ptr = np.searchsorted(src, np.arange(size + 1))
    inside = np.zeros(size, dtype=bool)
    value = np.full(size, -np.inf)  # score of nodes on the border, -inf elsewhere
    order = np.full((graphs, steps), -1, dtype=np.int64)
    if unit is not None:
        unit = unit + table.node_ptr[owner]
    urgent = float(np.ptp(score)) + 1 if size else 1.0
    newest = seed.copy()
    for step in range(steps):
        alive = np.flatnonzero(newest >= 0)
        if not len(alive):
            break
        joined = newest[alive]
        order[alive, step] = joined
        inside[joined] = True
        value[joined] = -np.inf
        counts = edge_ptr[joined + 1] - edge_ptr[joined]
        near = dst[ranges(edge_ptr[joined], counts)]
        from_ = np.repeat(joined, counts)[~inside[near]]
        near = near[~inside[near]]
        value[near] = np.maximum(value[near], score[near])
        if unit is not None:
            same = near[unit[near] == unit[from_]]
            value[same] = score[same] + urgent
        newest = _best_per_graph(value, owner, graphs)
        newest[seed < 0] = -1
    return Growth(order, (order >= 0).sum(axis=1), _whole(order, unit))


def _whole(order: Ints, unit: Ints | None) -> Bools:
    """Say of every prefix whether it exists and ends where a unit ends."""
    there = order >= 0
    needed = np.arange(1, order.shape[1] + 1)
    if unit is not None:
        sizes = np.bincount(unit, minlength=1)
        joined = np.where(there, unit[order], -1) if len(unit) else order
        begins = np.diff(joined, axis=1, prepend=-2) != 0
        needed = np.cumsum(np.where(begins & there, sizes[joined], 0), axis=1)
    whole = there & (needed == np.arange(1, order.shape[1] + 1))
    return np.concatenate([np.ones((len(order), 1), dtype=bool), whole], axis=1)


def _best_per_graph(value: Floats, owner: Ints, graphs: int) -> Ints:
    """Return the node with the largest finite value in every graph, -1 where there is none."""
    best = np.full(graphs, -1, dtype=np.int64)
    finite = np.flatnonzero(np.isfinite(value))
    if not len(finite):
        return best
    highest = np.full(graphs, -np.inf)
    np.maximum.at(highest, owner[finite], value[finite])
    top = finite[value[finite] == highest[owner[finite]]]
    best[owner[top[::-1]]] = top[::-1]
    return best


def _take(values: Values, rows: Ints) -> Values:
    return values.take(rows) if isinstance(values, Ragged) else values[rows]


def prefixes(table: GraphTable, order: Ints, sizes: Ints) -> tuple[GraphTable, Ints]:
    """Return, for every row of ``order`` ``[R, K]``, the subgraph of its first ``sizes[R]`` nodes.

    Nodes are numbered over the whole table and must differ within a row; rows may come from any
    graphs. Returned are the subgraphs with their node and edge columns, edges sorted, and the nodes
    in the order of the result.
    """
    rows = len(order)
    chosen = (np.arange(order.shape[1]) < sizes[:, None]) & (order >= 0)
    counts = chosen.sum(axis=1)
    node_ptr = pointers(counts)
    nodes, owner = order[chosen], np.repeat(np.arange(rows), counts)
    src, dst = global_edges(table)
    starts = np.searchsorted(src, np.arange(table.total_nodes + 1))
    degree = starts[nodes + 1] - starts[nodes]
    edge = ranges(starts[nodes], degree)
    edge_owner = np.repeat(owner, degree)
    left = np.repeat(np.arange(len(nodes)), degree)
    # An edge stays when its other end was chosen in the same row: look the pair up.
    code = owner * table.total_nodes + nodes
    by_code = np.argsort(code)
    wanted = edge_owner * table.total_nodes + dst[edge]
    at = np.minimum(np.searchsorted(code[by_code], wanted), max(len(code) - 1, 0))
    stays = code[by_code[at]] == wanted if len(code) else np.zeros(0, dtype=bool)
    edge, edge_owner, left, right = edge[stays], edge_owner[stays], left[stays], by_code[at[stays]]
    sort = np.lexsort((right, left))
    first = node_ptr[edge_owner[sort]]
    part = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(edge_owner, minlength=rows)),
        node={name: _take(values, nodes) for name, values in table.node.items()},
        edge={
            **{name: _take(values, edge[sort]) for name, values in table.edge.items()},
            "edge_src": (left[sort] - first).astype(np.int32),
            "edge_dst": (right[sort] - first).astype(np.int32),
        },
    )
    return part, nodes


def best_nodes(table: GraphTable, score: Floats, count: int) -> Ints:
    """Return the ``count`` best nodes of every graph, ``[G, count]``, -1 where there are fewer."""
    owner = rows_of(table.node_ptr)
    order = np.lexsort((-score, owner))
    rank = np.arange(len(order)) - table.node_ptr[owner[order]]
    best = np.full((len(table), count), -1, dtype=np.int64)
    top = rank < count
    best[owner[order[top]], rank[top]] = order[top]
    return best
