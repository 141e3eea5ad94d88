"""DropNode: drop every node, with its edges, with the same probability.

This is node dropping of GraphCL, which changes graphs. GRAND, which introduced the name, keeps
nodes and clears their features: ``mask-feature`` with ``masked = nodes``.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ints, pointers, row_indices
from gsx.stages.graphs.subgraphs import induced_subgraphs
from gsx.table import GraphTable


def drop_nodes(
    graphs: GraphTable, rate: float, stream: np.random.Generator
) -> tuple[GraphTable, Ints]:
    """Return the induced subgraphs of the remaining nodes, and each node's old number.

    A graph that would lose all nodes keeps one: the node with the largest random number, the
    last to be dropped as the rate increases.
    """
    graph = row_indices(graphs.node_ptr)
    number = stream.random(graphs.total_nodes)
    keep = number >= rate
    is_empty = np.bincount(graph[keep], minlength=len(graphs)) == 0
    nodes = np.flatnonzero(is_empty[graph])
    order = nodes[np.lexsort((number[nodes], graph[nodes]))]
    sizes = graphs.num_nodes[is_empty]
    keep[order[pointers(sizes[sizes > 0])[1:] - 1]] = True
    return induced_subgraphs(graphs, keep)
