"""Replicas of node-labelled graphs, most of which share the edges of their parent.

In a node-labelled corpus, a graph with a parent stores no edges, unless it differs from its parent
in the edges. ``Corpus`` restores them on reading. Shards as stored, and code that copies shards, do
not contain them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gsx.errors import ArtifactError
from gsx.ragged import Array, pointers
from gsx.schema import ORIGINS
from gsx.table import GraphTable, Values, concat

PARENT_COLUMNS = ("graph_id", "origin", "provenance.parents")
"""Graph columns that determine whose edges a graph has."""
STORES_OWN_EDGES = ORIGINS.index("dropedge")
"""Origin of replicas that store their own edges."""


def is_replica(table: GraphTable) -> Array:
    """Return a mask ``[G]`` of graphs that repeat the nodes of a parent."""
    mask: Array = np.diff(table.lists("graph", "provenance.parents").ptr) > 0
    return mask


def shares_parent_edges(table: GraphTable) -> Array:
    """Return a mask ``[G]`` of graphs that have the edges of their parent."""
    mask: Array = is_replica(table) & (table.dense("graph", "origin") != STORES_OWN_EDGES)
    return mask


def edge_owners(tables: Iterable[GraphTable]) -> GraphTable:
    """Return the graphs that store their own edges, with edge and parent columns only."""
    owners = [table.filter(~shares_parent_edges(table)) for table in tables]
    reduced = [table.select([*PARENT_COLUMNS, *table.edge]) for table in owners]
    return concat([GraphTable(t.node_ptr, t.edge_ptr, t.graph, {}, t.edge) for t in reduced])


def restore_shared_edges(table: GraphTable, owners: GraphTable, where: str) -> GraphTable:
    """Return ``table`` with the edges of replicas copied from their parents in ``owners``."""
    shared = shares_parent_edges(table)
    if not shared.any():
        return table
    row_of = {int(id_): row for row, id_ in enumerate(owners.dense("graph", "graph_id"))}
    parents = table.lists("graph", "provenance.parents")
    sources: list[tuple[GraphTable, int]] = []
    for row in range(len(table)):
        if not shared[row]:
            sources.append((table, row))
            continue
        parent = int(parents.values[parents.ptr[row]])
        if parent not in row_of or owners.num_nodes[row_of[parent]] != table.num_nodes[row]:
            raise ArtifactError(
                f"{where}: {table.describe(row)} shares the edges of graph {parent}, which is "
                "missing or has a different number of nodes."
            )
        sources.append((owners, row_of[parent]))
    counts = [int(source.num_edges[row]) for source, row in sources]
    edge: dict[str, Values] = {
        name: np.concatenate(
            [
                source.dense("edge", name)[source.edge_ptr[row] : source.edge_ptr[row + 1]]
                for source, row in sources
            ]
        )
        for name in table.edge
    }
    return GraphTable(table.node_ptr, pointers(counts), table.graph, table.node, edge)
