"""Replicas of graphs of labelled nodes: most have the edges of their parent, stored once.

Where nodes have labels, a graph that names a parent stores no edges, unless edges are what it
differs in. Whoever reads a corpus gets them; shards as they are stored, and everything that copies
shards, do not have them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gsx.errors import ArtifactError
from gsx.ragged import Array, pointers
from gsx.schema import ORIGINS
from gsx.table import GraphTable, Values, concat

NEEDED = ("graph_id", "origin", "provenance.parents")
"""Graph columns that say whose structure a graph has."""
OWN = ORIGINS.index("dropedge")
"""Origin of replicas that store the edges left to them."""


def replicas(table: GraphTable) -> Array:
    """Say of every graph whether it repeats the nodes of a parent."""
    found: Array = np.diff(table.lists("graph", "provenance.parents").ptr) > 0
    return found


def borrowers(table: GraphTable) -> Array:
    """Say of every graph whether its structure is that of its parent."""
    found: Array = replicas(table) & (table.dense("graph", "origin") != OWN)
    return found


def structures(tables: Iterable[GraphTable]) -> GraphTable:
    """Return the graphs whose edges are their own, with nothing but these."""
    parts = [table.filter(~borrowers(table)) for table in tables]
    plain = [part.select([*NEEDED, *part.edge]) for part in parts]
    return concat([GraphTable(p.node_ptr, p.edge_ptr, p.graph, {}, p.edge) for p in plain])


def with_structure(table: GraphTable, known: GraphTable, where: str) -> GraphTable:
    """Give replicas the edges of their parents, which ``known`` holds."""
    shared = borrowers(table)
    if not shared.any():
        return table
    row_of = {int(id_): row for row, id_ in enumerate(known.dense("graph", "graph_id"))}
    parents = table.lists("graph", "provenance.parents")
    sources: list[tuple[GraphTable, int]] = []
    for row in range(len(table)):
        if not shared[row]:
            sources.append((table, row))
            continue
        parent = int(parents.values[parents.ptr[row]])
        if parent not in row_of or known.num_nodes[row_of[parent]] != table.num_nodes[row]:
            raise ArtifactError(
                f"{where}: {table.describe(row)} has the structure of graph {parent}, which is "
                "not there, or has another number of nodes."
            )
        sources.append((known, row_of[parent]))
    counts = [int(held.num_edges[row]) for held, row in sources]
    edge: dict[str, Values] = {
        name: np.concatenate(
            [
                held.dense("edge", name)[held.edge_ptr[row] : held.edge_ptr[row + 1]]
                for held, row in sources
            ]
        )
        for name in table.edge
    }
    return GraphTable(table.node_ptr, pointers(counts), table.graph, table.node, edge)
