"""Random extra edges: structural noise of spliced graphs."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ints, row_indices
from gsx.stages.graphs.subgraphs import Bools, global_edges
from gsx.table import GraphTable

MAX_ROUNDS = 8
"""Times a rejected pair of nodes is redrawn; then the edge is given up."""


def draw_random_edges(
    table: GraphTable,
    extra_edges: tuple[Ints, Ints],
    per_edge: float,
    protected: Ints,
    stream: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Draw new undirected edges, on average ``per_edge`` per edge of each graph.

    ``extra_edges`` are edges in addition to those of ``table``. ``protected`` ``[N]`` numbers node
    sets that get no new edges inside, -1 for all other nodes. Nodes are numbered over the whole
    table. No new edge is a self-loop, equals an existing or another new edge, or connects two nodes
    of the same protected set. Returns the smaller and the larger end of every edge.
    """
    src, dst = global_edges(table)
    graph_of_node = row_indices(table.node_ptr)
    size = table.total_nodes
    existing = np.sort(np.concatenate([src * size + dst, _pair_codes(*extra_edges, size)]))
    edges = np.bincount(graph_of_node[extra_edges[0]], minlength=len(table)) + table.num_edges / 2
    wanted = np.floor(per_edge * edges + stream.random(len(table))).astype(np.int64)
    graph = np.repeat(np.arange(len(table)), wanted)
    accepted = np.zeros(0, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        ends = table.node_ptr[graph] + (
            stream.random((2, len(graph))) * table.num_nodes[graph]
        ).astype(np.int64)
        u, v = ends.min(axis=0), ends.max(axis=0)
        code = u * size + v
        valid = (
            (u != v)
            & ((protected[u] != protected[v]) | (protected[u] < 0))
            & ~_in_sorted(code, existing)
        )
        is_first = np.zeros(len(code), dtype=bool)
        is_first[np.unique(code, return_index=True)[1]] = True
        valid &= is_first & ~_in_sorted(code, accepted)
        accepted = np.sort(np.concatenate([accepted, code[valid]]))
        graph = graph[~valid]
        if not len(graph):
            break
    return accepted // size, accepted % size


def _pair_codes(u: Ints, v: Ints, size: int) -> Ints:
    """Return one integer per directed edge, for both directions."""
    return np.concatenate([u * size + v, v * size + u])


def _in_sorted(values: Ints, sorted_values: Ints) -> Bools:
    """Return which values occur in a sorted array."""
    if not len(sorted_values):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.asarray(sorted_values[at] == values)
