"""Nodes a message-passing network cannot tell apart, so that it need look at one of each only.

After ``k`` rounds a node's state depends on what is up to ``k`` steps away from it. Nodes that
agree there have one color and one state, in whatever graphs they lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, pointers, ranges
from gsx.stages.graphs.wl_hash import node_colors
from gsx.table import GraphTable

WORTH = 0.75
"""Share of nodes that must stay at most, for folding to pay."""


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """One round over a batch: which rows of the round before sum to each new row."""

    ptr: Ints
    """``[R + 1]`` pointers into ``columns``."""
    columns: Ints
    """Rows of the round before: the node's own and its neighbors'."""
    count: Ints | None
    """``[R]`` nodes each new row stands for; None where every node has its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """All rounds over a batch, and the rows of its nodes before and after."""

    first: Ints
    """A node for every row before the first round."""
    rounds: tuple[Fold, ...]
    last: Ints
    """``[N]`` row of every node after the last round."""


def with_colors(graphs: GraphTable, rounds: int) -> GraphTable:
    """Add the column ``colors`` ``[N, rounds + 1]``: numbers, equal for equal surroundings."""
    found = [np.unique(color, return_inverse=True)[1] for color in node_colors(graphs, rounds)]
    return graphs.with_columns(node={"colors": np.column_stack(found)})


def folds(batch: GraphTable, rounds: int) -> Folds:
    """Return how rows sum up in every round; without a column ``colors``, nodes stay apart.

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
        steps.append(Fold(ptr, columns, count))
        row = next_row
    return Folds(first, tuple(steps), row)


def _classes(colors: Array | None, number: int, size: int) -> tuple[Ints, Ints]:
    """Return one node of every color, and the place of every node's color among them."""
    every = np.arange(size, dtype=np.int64)
    if colors is None or not size:
        return every, every
    color = colors[:, number]
    keeper = np.empty(int(color.max()) + 1, dtype=np.int64)
    keeper[color[::-1]] = every[::-1]
    kept = keeper[color]
    stays = kept == every
    chosen = np.flatnonzero(stays)
    if len(chosen) > WORTH * size:
        return every, every
    place = np.cumsum(stays) - 1
    return chosen, place[kept]
