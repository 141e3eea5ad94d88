"""Deduplication of WL-equivalent nodes in a batch, so that a network computes each state once.

After ``k`` rounds of message passing, the state of a node depends on its ``k``-hop neighborhood
alone. Nodes with the same Weisfeiler-Lehman color have the same state, also in different graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, pointers, ranges
from gsx.stages.graphs.wl_hash import node_colors
from gsx.table import GraphTable

MAX_KEPT_SHARE = 0.75
"""Largest share of distinct nodes at which deduplication is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class DedupRound:
    """One round of message passing over distinct rows: the previous rows that each new row sums."""

    ptr: Ints
    """``[R + 1]`` pointers into ``columns``."""
    columns: Ints
    """Rows of the previous round: the node itself and its neighbors."""
    count: Ints | None
    """``[R]`` number of nodes per new row; None if every node has its own row."""


@dataclass(frozen=True, slots=True, eq=False)
class DedupPlan:
    """All rounds over a batch, and the mapping between nodes and rows."""

    first: Ints
    """One node for every row before the first round."""
    rounds: tuple[DedupRound, ...]
    last: Ints
    """``[N]`` row of every node after the last round."""


def with_wl_colors(graphs: GraphTable, rounds: int) -> GraphTable:
    """Add the column ``colors`` ``[N, rounds + 1]``: equal numbers for equal neighborhoods."""
    columns = [np.unique(color, return_inverse=True)[1] for color in node_colors(graphs, rounds)]
    return graphs.with_columns(node={"colors": np.column_stack(columns)})


def dedup_plan(batch: GraphTable, rounds: int) -> DedupPlan:
    """Return the rows and sums of every round; without a column ``colors``, one row per node.

    Edges must be sorted by source.
    """
    size = batch.total_nodes
    start = np.repeat(batch.node_ptr[:-1], batch.num_edges)
    target = start + batch.dense("edge", "edge_dst")
    degree = np.bincount(start + batch.dense("edge", "edge_src"), minlength=size)
    begin = pointers(degree)[:-1]
    colors = batch.dense("node", "colors") if "colors" in batch.node else None
    chosen, row = _classes(colors, 0, size)
    first, steps = chosen, []
    for number in range(1, rounds + 1):
        chosen, next_row = _classes(colors, number, size)
        own = degree[chosen]
        ptr = pointers(own + 1)
        columns = np.empty(ptr[-1], dtype=np.int64)
        neighbors = np.ones(ptr[-1], dtype=bool)
        neighbors[ptr[:-1]] = False
        columns[ptr[:-1]] = row[chosen]
        columns[neighbors] = row[target[ranges(begin[chosen], own)]]
        count = None if len(chosen) == size else np.bincount(next_row, minlength=len(chosen))
        steps.append(DedupRound(ptr, columns, count))
        row = next_row
    return DedupPlan(first, tuple(steps), row)


def _classes(colors: Array | None, number: int, size: int) -> tuple[Ints, Ints]:
    """Return one node per color, and the index of every node's color among these nodes."""
    every = np.arange(size, dtype=np.int64)
    if colors is None or not size:
        return every, every
    color = colors[:, number]
    keeper = np.empty(int(color.max()) + 1, dtype=np.int64)
    keeper[color[::-1]] = every[::-1]
    kept = keeper[color]
    stays = kept == every
    chosen = np.flatnonzero(stays)
    if len(chosen) > MAX_KEPT_SHARE * size:
        return every, every
    index = np.cumsum(stays) - 1
    return chosen, index[kept]
