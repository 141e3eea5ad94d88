"""Random edges: the noise real graphs have beside their plan."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ints, rows_of
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

ROUNDS = 8
"""Times a pair is drawn anew because it cannot be joined; then the edge is given up."""


def draw_chords(
    table: GraphTable,
    joined: tuple[Ints, Ints],
    per_edge: float,
    whole: Ints,
    stream: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Draw new undirected edges, ``per_edge`` times as many as each graph has, rounded by chance.

    ``joined`` are edges that come on top of those of ``table``, ``whole`` ``[N]`` numbers parts
    that must not change inside; -1 for nodes of none. All nodes are numbered over the whole table.
    No edge is drawn twice, from a node to itself, where there is one, or inside a part.
    """
    src, dst = global_edges(table)
    owner = rows_of(table.node_ptr)
    size = table.total_nodes
    known = np.sort(np.concatenate([src * size + dst, _code(*joined, size)]))
    edges = np.bincount(owner[joined[0]], minlength=len(table)) + table.num_edges / 2
    wanted = np.floor(per_edge * edges + stream.random(len(table))).astype(np.int64)
    graph = np.repeat(np.arange(len(table)), wanted)
    found = np.zeros(0, dtype=np.int64)
    for _ in range(ROUNDS):
        ends = table.node_ptr[graph] + (
            stream.random((2, len(graph))) * table.num_nodes[graph]
        ).astype(np.int64)
        u, v = ends.min(axis=0), ends.max(axis=0)
        code = u * size + v
        fine = (u != v) & ((whole[u] != whole[v]) | (whole[u] < 0)) & ~_among(code, known)
        first = np.zeros(len(code), dtype=bool)
        first[np.unique(code, return_index=True)[1]] = True
        fine &= first & ~_among(code, found)
        found = np.sort(np.concatenate([found, code[fine]]))
        graph = graph[~fine]
        if not len(graph):
            break
    return found // size, found % size


def _code(u: Ints, v: Ints, size: int) -> Ints:
    return np.concatenate([u * size + v, v * size + u])


def _among(values: Ints, known: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Say which values are in a sorted list."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[at] == values)
