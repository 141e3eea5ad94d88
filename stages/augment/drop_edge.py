"""DropEdge (Rong et al. 2020): drop every undirected edge with the same probability.

Both directions of an edge, and parallel edges between two nodes, are dropped together. Nodes stay.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import pointers
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

PAIR = "pair"
"""Edge column: number of the edge's pair of nodes among the connected pairs of its graph."""
NUM_PAIRS = "pairs"
"""Graph column: number of connected pairs of nodes."""


def number_node_pairs(graphs: GraphTable) -> GraphTable:
    """Add the columns ``PAIR`` and ``NUM_PAIRS``, which ``drop_edges`` needs."""
    src, dst = global_edges(graphs)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    code, number = np.unique(low * max(graphs.total_nodes, 1) + high, return_inverse=True)
    start = np.searchsorted(code, graphs.node_ptr * max(graphs.total_nodes, 1))
    pair = number - np.repeat(start[:-1], graphs.num_edges)
    return graphs.with_columns(
        edge={PAIR: pair.astype(np.int32)}, graph={NUM_PAIRS: np.diff(start).astype(np.int64)}
    )


def drop_edges(graphs: GraphTable, rate: float, stream: np.random.Generator) -> GraphTable:
    """Return the graphs without the dropped edges; the order of the others does not change."""
    start = pointers(graphs.dense("graph", NUM_PAIRS))
    pair_stays = stream.random(int(start[-1])) >= rate
    keep = pair_stays[np.repeat(start[:-1], graphs.num_edges) + graphs.dense("edge", PAIR)]
    num_kept = np.bincount(graphs.edge_graph()[keep], minlength=len(graphs))
    return GraphTable(
        node_ptr=graphs.node_ptr,
        edge_ptr=pointers(num_kept),
        graph=graphs.graph,
        node=graphs.node,
        edge={name: graphs.dense("edge", name)[keep] for name in graphs.edge},
    )
