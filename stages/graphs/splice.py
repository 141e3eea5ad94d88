"""Structural linear extrapolation: adding graphs and pieces, and the labels that come out.

Symbols follow the paper's section on structural linear extrapolation: a spliced graph is the union
of its components plus bridges; every whole graph and every causal piece votes with its label.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gsx.ragged import Array, Ints, pointers, rows_of
from gsx.table import GraphTable

Floats = npt.NDArray[np.float64]


def union(components: GraphTable, counts: Ints) -> tuple[GraphTable, Ints, Ints]:
    """Join runs of ``counts[g]`` consecutive components into one graph each, without bridges.

    Returns the joined graphs without graph columns, the slot of every node, ``[N]``, and the number
    every component's node 0 got in its new graph, ``[C]``.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    bounds = pointers(counts)
    node_ptr = components.node_ptr[bounds]
    first = components.node_ptr[:-1] - node_ptr[owner]
    raised = np.repeat(first, components.num_edges).astype(np.int32)
    slot = np.arange(len(components)) - bounds[owner]
    joined = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=components.edge_ptr[bounds],
        node=components.node,
        edge={
            **components.edge,
            "edge_src": components.dense("edge", "edge_src") + raised,
            "edge_dst": components.dense("edge", "edge_dst") + raised,
        },
    )
    return joined, slot[rows_of(components.node_ptr)], first


def spliced_labels(y: Array, votes: Floats, counts: Ints) -> Array:
    """Return the label of every spliced graph, ``[G, C]``.

    ``y`` ``[P, C]`` are the labels of the pieces, ``votes`` ``[P]`` their coefficients: 0 for
    environmental pieces, the multiplicity for whole graphs and causal pieces. Missing values (NaN)
    do not vote; a task without votes stays missing.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    known = ~np.isnan(y)
    weight = known * votes[:, None]
    total = np.zeros((len(counts), y.shape[1]))
    voted = np.zeros_like(total)
    np.add.at(total, owner, np.where(known, y, 0) * weight)
    np.add.at(voted, owner, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(voted > 0, total / voted, np.nan).astype(np.float32)


def labels_by(rule: str, y: Array, votes: Floats, counts: Ints) -> Array:
    """Return the labels of spliced graphs: by ``average`` votes, or by what ``any`` or ``all`` say.

    A single vote decides alike by every rule.
    """
    if rule == "average":
        return spliced_labels(y, votes, counts)
    return ruling_labels(y, votes, counts, 1.0 if rule == "any" else 0.0)


def ruling_labels(y: Array, votes: Floats, counts: Ints, ruling: float) -> Array:
    """Return the labels of spliced graphs where one answer rules, ``[G, C]``.

    ``ruling`` is 1 where a graph says yes once any of its pieces does, 0 where it says no once any
    does. What is missing (NaN) might have ruled: without an answer that rules the task is missing.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    heard = votes > 0
    answers = y if ruling else 1 - y
    shape = (len(counts), y.shape[1])
    most, unknown = np.full(shape, -np.inf), np.zeros(shape, dtype=bool)
    np.maximum.at(most, owner[heard], np.nan_to_num(answers[heard], nan=-np.inf))
    np.logical_or.at(unknown, owner[heard], np.isnan(answers[heard]))
    most = np.where((unknown & (most < 1)) | np.isneginf(most), np.nan, most)
    return np.asarray(most if ruling else 1 - most, dtype=np.float32)


def hard_labels(y: Array, task: str) -> Array:
    """Return the class where a label is hard, else -1, ``[G]``."""
    if task == "classification":
        best = y.argmax(axis=1)
        return np.where(y.max(axis=1) == 1, best, -1).astype(np.int32)
    if task == "binary" and y.shape[1] == 1:
        return np.where((y[:, 0] == 0) | (y[:, 0] == 1), y[:, 0], -1).astype(np.int32)
    return np.full(len(y), -1, dtype=np.int32)


def add_edges(
    table: GraphTable, graph: Ints, u: Ints, v: Ints, edge: dict[str, Array]
) -> tuple[GraphTable, Ints, Ints]:
    """Return the graphs with undirected edges added, all edges sorted by source and target.

    ``graph``, ``u``, ``v`` ``[B]`` name a graph and two local nodes; ``edge`` holds the other edge
    columns of the new edges, ``[B, …]``. Also returns, per graph, pointers into the positions of
    the new edges inside their graphs, and those positions.
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
    """Return the graphs with nodes added, each graph's after the nodes it has.

    ``graph`` ``[B]`` names the graph of every new node, ``node`` holds all node columns of the new
    ones. Also returns the local numbers of the new nodes, ``[B]``, and where the old nodes are now,
    over the whole table.
    """
    owner = np.concatenate([rows_of(table.node_ptr), graph])
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    node_ptr = pointers(np.bincount(owner, minlength=len(table)))
    columns = {
        name: np.concatenate([table.dense("node", name), node[name]])[order] for name in table.node
    }
    grown = GraphTable(node_ptr, table.edge_ptr, table.graph, columns, table.edge)
    old, new = place[: table.total_nodes], place[table.total_nodes :]
    return grown, new - node_ptr[graph], old
