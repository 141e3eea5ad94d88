"""Induced subgraphs, connected components and greedy growth of connected subgraphs.

Every function processes all graphs of a table at once. Node arrays have shape ``[N]`` and cover the
whole table; *global* node ids index that array, *local* ids start at 0 in each graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gsx.ragged import Ints, Ragged, pointers, ranges, row_indices
from gsx.table import GraphTable, Values

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def global_edges(table: GraphTable) -> tuple[Ints, Ints]:
    """Return the global source and target ids of every edge, ``[E]`` each."""
    start = np.repeat(table.node_ptr[:-1], table.num_edges)
    return start + table.dense("edge", "edge_src"), start + table.dense("edge", "edge_dst")


def sort_edges(table: GraphTable) -> GraphTable:
    """Return the table with edges sorted by source, then target."""
    src, dst = global_edges(table)
    order = np.lexsort((dst, src))
    if (order == np.arange(len(order))).all():
        return table
    return table.with_columns(
        edge={name: _take(values, order) for name, values in table.edge.items()}
    )


def induced_subgraphs(table: GraphTable, keep: Bools) -> tuple[GraphTable, Ints]:
    """Return the subgraphs induced by the nodes in ``keep``, and the kept nodes' old local ids.

    A graph without kept nodes stays as an empty row.
    """
    src, dst = global_edges(table)
    kept_edge = keep[src] & keep[dst]
    new_id = np.cumsum(keep) - 1
    owner = row_indices(table.node_ptr)
    node_ptr = pointers(np.bincount(owner[keep], minlength=len(table)))
    edge_owner = table.edge_graph()[kept_edge]
    local = (new_id - node_ptr[owner]).astype(np.int32)
    subgraphs = GraphTable(
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
    old_id = np.arange(table.total_nodes) - table.node_ptr[owner]
    return subgraphs, old_id[keep]


def component_labels(table: GraphTable, keep: Bools | None = None) -> Ints:
    """Return the connected component of every node, ``[N]``, numbered over the whole table.

    With ``keep``, only edges between kept nodes count.
    """
    # Preparing and describing a corpus does not need this function and works without scipy.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    src, dst = global_edges(table)
    if keep is not None:
        inside = keep[src] & keep[dst]
        src, dst = src[inside], dst[inside]
    size = table.total_nodes
    one = np.ones(len(src))
    if size < 1 << 31 and not (src[1:] < src[:-1]).any():  # edges are rows of the matrix already
        ptr = pointers(np.bincount(src, minlength=size))
        rows = (dst.astype(np.int32), ptr.astype(np.int32)) if len(src) < 1 << 31 else (dst, ptr)
        matrix = csr_array((one, *rows), shape=(size, size))
    else:
        matrix = csr_array((one, (src, dst)), shape=(size, size))
    _, label = connected_components(matrix, directed=False)
    return np.asarray(label, dtype=np.int64)


def is_connected(table: GraphTable) -> Bools:
    """Return whether every graph is connected, ``[G]``; an empty graph counts as connected."""
    label = component_labels(table)
    owner = row_indices(table.node_ptr)
    first = np.zeros(int(label.max(initial=-1)) + 1, dtype=np.int64)
    first[label] = owner
    return np.asarray(np.bincount(first, minlength=len(table)) <= 1)


def largest_component(table: GraphTable, keep: Bools) -> Bools:
    """Return a node mask of the largest connected component among the kept nodes of each graph."""
    label = component_labels(table, keep)
    size = np.bincount(label[keep], minlength=int(label.max(initial=-1)) + 1)
    owner = row_indices(table.node_ptr)
    kept = np.flatnonzero(keep)
    order = kept[np.lexsort((label[kept], -size[label[kept]], owner[kept]))]
    first = np.ones(len(order), dtype=bool)
    first[1:] = owner[order[1:]] != owner[order[:-1]]
    best = np.full(len(table), -1, dtype=np.int64)
    best[owner[order[first]]] = label[order[first]]
    return np.asarray(keep & (label == best[owner]))


@dataclass(frozen=True, slots=True, eq=False)
class GrowthOrder:
    """Connected node sets grown node by node: every prefix of ``order`` is connected."""

    order: Ints
    """``[G, K]`` global node ids in the order in which they were added; -1 after the end."""
    length: Ints
    """``[G]`` number of added nodes."""
    complete: Bools
    """``[G, K + 1]`` whether the prefix of that length exists and splits no unit."""

    def rounded_to_units(self, sizes: Ints) -> Ints:
        """Return, for every graph, the largest size up to ``sizes`` ``[G]`` that splits no unit.

        If all such sizes are larger, the smallest of them; if there is none, 0.
        """
        lengths = np.arange(self.complete.shape[1])
        usable = self.complete & (lengths > 0)
        below = np.where(usable & (lengths <= sizes[:, None]), lengths, 0).max(axis=1)
        above = np.where(usable, lengths, lengths[-1] + 1).min(axis=1)
        return np.where(below > 0, below, np.where(above > lengths[-1], 0, above))


def grow_subgraphs(
    table: GraphTable, score: Floats, seed: Ints, steps: int, unit: Ints | None = None
) -> GrowthOrder:
    """Grow one connected set per graph from ``seed`` ``[G]``, adding the best neighbor each step.

    ``seed`` holds global node ids, -1 for graphs to skip. Edges must be sorted by source. Ties go
    to the lower node id. ``unit`` ``[N]`` numbers connected groups of nodes, from 0 in each graph;
    once one node of a unit is added, the rest of the unit follows before any other node.
    """
    src, dst = global_edges(table)
    graphs, size = len(table), table.total_nodes
    owner = row_indices(table.node_ptr)
    edge_ptr = np.searchsorted(src, np.arange(size + 1))
    inside = np.zeros(size, dtype=bool)
    value = np.full(size, -np.inf)  # score of neighbors of the set, -inf elsewhere
    order = np.full((graphs, steps), -1, dtype=np.int64)
    if unit is not None:
        unit = unit + table.node_ptr[owner]
    urgent = float(np.ptp(score)) + 1 if size else 1.0
    newest = seed.copy()
    for step in range(steps):
        alive = np.flatnonzero(newest >= 0)
        if not len(alive):
            break
        added = newest[alive]
        order[alive, step] = added
        inside[added] = True
        value[added] = -np.inf
        counts = edge_ptr[added + 1] - edge_ptr[added]
        near = dst[ranges(edge_ptr[added], counts)]
        from_ = np.repeat(added, counts)[~inside[near]]
        near = near[~inside[near]]
        value[near] = np.maximum(value[near], score[near])
        if unit is not None:
            same = near[unit[near] == unit[from_]]
            value[same] = score[same] + urgent
        newest = _best_per_graph(value, owner, graphs)
        newest[seed < 0] = -1
    return GrowthOrder(order, (order >= 0).sum(axis=1), _complete_prefixes(order, unit))


def _complete_prefixes(order: Ints, unit: Ints | None) -> Bools:
    """Return whether every prefix exists and ends at the end of a unit."""
    exists = order >= 0
    needed = np.arange(1, order.shape[1] + 1)
    if unit is not None:
        sizes = np.bincount(unit, minlength=1)
        unit_of = np.where(exists, unit[order], -1) if len(unit) else order
        begins = np.diff(unit_of, axis=1, prepend=-2) != 0
        needed = np.cumsum(np.where(begins & exists, sizes[unit_of], 0), axis=1)
    complete = exists & (needed == np.arange(1, order.shape[1] + 1))
    return np.concatenate([np.ones((len(order), 1), dtype=bool), complete], axis=1)


def _best_per_graph(value: Floats, owner: Ints, graphs: int) -> Ints:
    """Return the node with the largest finite value in every graph; -1 if there is none."""
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


def prefix_subgraphs(table: GraphTable, order: Ints, sizes: Ints) -> tuple[GraphTable, Ints]:
    """Return, for every row of ``order`` ``[R, K]``, the subgraph of its first ``sizes[R]`` nodes.

    Rows hold distinct global node ids; several rows may come from one graph. Returns the subgraphs
    with their node and edge columns and sorted edges, and the global node ids in result order.
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
    # Keep an edge if its target was chosen in the same row: search for the pair.
    code = owner * table.total_nodes + nodes
    by_code = np.argsort(code)
    wanted = edge_owner * table.total_nodes + dst[edge]
    at = np.minimum(np.searchsorted(code[by_code], wanted), max(len(code) - 1, 0))
    kept = code[by_code[at]] == wanted if len(code) else np.zeros(0, dtype=bool)
    edge, edge_owner, left, right = edge[kept], edge_owner[kept], left[kept], by_code[at[kept]]
    sort = np.lexsort((right, left))
    first = node_ptr[edge_owner[sort]]
    subgraphs = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(edge_owner, minlength=rows)),
        node={name: _take(values, nodes) for name, values in table.node.items()},
        edge={
            **{name: _take(values, edge[sort]) for name, values in table.edge.items()},
            "edge_src": (left[sort] - first).astype(np.int32),
            "edge_dst": (right[sort] - first).astype(np.int32),
        },
    )
    return subgraphs, nodes


def top_nodes(table: GraphTable, score: Floats, count: int) -> Ints:
    """Return the ``count`` nodes of highest score per graph, ``[G, count]``, padded with -1."""
    owner = row_indices(table.node_ptr)
    order = np.lexsort((-score, owner))
    rank = np.arange(len(order)) - table.node_ptr[owner[order]]
    best = np.full((len(table), count), -1, dtype=np.int64)
    top = rank < count
    best[owner[order[top]], rank[top]] = order[top]
    return best
