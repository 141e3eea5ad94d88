"""Build spliced graphs: unions of components, added edges and nodes, and other orders of nodes.

A spliced graph is the union of its components plus bridges (structural linear extrapolation in the
paper). ``gsx.stages.augmented.label_rules`` holds the labels of spliced graphs.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, pointers, row_indices
from gsx.table import GraphTable


def union(components: GraphTable, counts: Ints) -> tuple[GraphTable, Ints, Ints]:
    """Join runs of ``counts[g]`` consecutive components into one graph each, without bridges.

    Returns the joined graphs without graph columns, the slot of every node, ``[N]``, and the local
    id of every component's node 0 in its new graph, ``[C]``.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    bounds = pointers(counts)
    node_ptr = components.node_ptr[bounds]
    first = components.node_ptr[:-1] - node_ptr[owner]
    offset = np.repeat(first, components.num_edges).astype(np.int32)
    slot = np.arange(len(components)) - bounds[owner]
    joined = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=components.edge_ptr[bounds],
        node=components.node,
        edge={
            **components.edge,
            "edge_src": components.dense("edge", "edge_src") + offset,
            "edge_dst": components.dense("edge", "edge_dst") + offset,
        },
    )
    return joined, slot[row_indices(components.node_ptr)], first


def add_edges(
    table: GraphTable, graph: Ints, u: Ints, v: Ints, edge: dict[str, Array]
) -> tuple[GraphTable, Ints, Ints]:
    """Return the graphs with undirected edges added, all edges sorted by source and target.

    ``graph``, ``u``, ``v`` ``[B]`` hold a graph and two local node ids; ``edge`` holds the other
    edge columns of the new edges, ``[B, …]``. Also returns, per graph, pointers into the positions
    of the new edges inside their graphs, and those positions.
    """
    twice = np.concatenate([graph, graph])
    owner = np.concatenate([table.edge_graph(), twice])
    src = np.concatenate([table.dense("edge", "edge_src"), u, v]).astype(np.int32)
    dst = np.concatenate([table.dense("edge", "edge_dst"), v, u]).astype(np.int32)
    size = int(table.num_nodes.max(initial=1))
    code = (table.node_ptr[owner] + src) * size + dst
    order = np.argsort(code, kind="stable")
    columns = {
        name: np.concatenate([table.dense("edge", name), edge[name], edge[name]])[order]
        for name in table.edge
        if name not in ("edge_src", "edge_dst")
    }
    edge_ptr = pointers(np.bincount(owner, minlength=len(table)))
    new = np.flatnonzero(order >= table.total_edges)
    new_owner = owner[order[new]]
    joined = GraphTable(
        node_ptr=table.node_ptr,
        edge_ptr=edge_ptr,
        graph=table.graph,
        node=table.node,
        edge={"edge_src": src[order], "edge_dst": dst[order], **columns},
    )
    return joined, pointers(np.bincount(new_owner, minlength=len(table))), new - edge_ptr[new_owner]


def add_nodes(
    table: GraphTable, graph: Ints, node: dict[str, Array]
) -> tuple[GraphTable, Ints, Ints]:
    """Return the graphs with nodes appended to each graph's nodes.

    ``graph`` ``[B]`` holds the graph of every new node, ``node`` all node columns of the new nodes.
    Also returns the local ids of the new nodes, ``[B]``, and the new global ids of the old nodes.
    """
    owner = np.concatenate([row_indices(table.node_ptr), graph])
    order = np.argsort(owner, kind="stable")
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    node_ptr = pointers(np.bincount(owner, minlength=len(table)))
    columns = {
        name: np.concatenate([table.dense("node", name), node[name]])[order] for name in table.node
    }
    extended = GraphTable(node_ptr, table.edge_ptr, table.graph, columns, table.edge)
    old, new = position[: table.total_nodes], position[table.total_nodes :]
    return extended, new - node_ptr[graph], old


def reorder_nodes(table: GraphTable, nodes: Ints) -> tuple[GraphTable, Ints]:
    """Return the graphs with their nodes in another order, all edges sorted by source and target.

    ``nodes`` ``[N]`` holds the old global id of every node, graph by graph. Also returns the old
    index of every edge, ``[E]``. Graph columns are not changed.
    """
    new_id = np.empty(table.total_nodes, dtype=np.int64)
    new_id[nodes] = np.arange(table.total_nodes)
    start = np.repeat(table.node_ptr[:-1], table.num_edges)
    src, dst = (new_id[start + table.dense("edge", name)] for name in ("edge_src", "edge_dst"))
    size = int(table.num_nodes.max(initial=1))
    edges = np.argsort(src * size + dst - start, kind="stable")
    ends = {"edge_src": src - start, "edge_dst": dst - start}
    reordered = GraphTable(
        node_ptr=table.node_ptr,
        edge_ptr=table.edge_ptr,
        graph=table.graph,
        node={name: table.dense("node", name)[nodes] for name in table.node},
        edge={
            name: (ends[name].astype(np.int32) if name in ends else table.dense("edge", name))[
                edges
            ]
            for name in table.edge
        },
    )
    return reordered, edges
