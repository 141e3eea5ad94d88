"""DropEdge (Rong et al. 2020): every undirected edge is dropped with one probability.

Both directions of an edge go together, and so do edges between the same two nodes; nodes stay.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import pointers
from gsx.stages.graphs.edges import global_edges
from gsx.table import GraphTable

PAIR = "pair"
"""Edge column: the number of the two nodes an edge joins, among such pairs of its graph."""
PAIRS = "pairs"
"""Graph column: how many pairs of nodes are joined."""


def number_pairs(graphs: GraphTable) -> GraphTable:
    """Return the graphs with their pairs of joined nodes numbered, which `drop_edges` needs."""
    src, dst = global_edges(graphs)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    code, number = np.unique(low * max(graphs.total_nodes, 1) + high, return_inverse=True)
    start = np.searchsorted(code, graphs.node_ptr * max(graphs.total_nodes, 1))
    pair = number - np.repeat(start[:-1], graphs.num_edges)
    return graphs.with_columns(
        edge={PAIR: pair.astype(np.int32)}, graph={PAIRS: np.diff(start).astype(np.int64)}
    )


def drop_edges(graphs: GraphTable, rate: float, stream: np.random.Generator) -> GraphTable:
    """Return the graphs with the edges that stay, in their order."""
    start = pointers(graphs.dense("graph", PAIRS))
    stays = stream.random(int(start[-1])) >= rate
    keep = stays[np.repeat(start[:-1], graphs.num_edges) + graphs.dense("edge", PAIR)]
    kept = np.bincount(graphs.edge_graph()[keep], minlength=len(graphs))
    return GraphTable(
        node_ptr=graphs.node_ptr,
        edge_ptr=pointers(kept),
        graph=graphs.graph,
        node=graphs.node,
        edge={name: graphs.dense("edge", name)[keep] for name in graphs.edge},
    )
