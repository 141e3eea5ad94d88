"""DropNode: every node is dropped with one probability, and its edges with it.

This is the node dropping of GraphCL, which changes graphs. GRAND, which first used the name, leaves
nodes in place and clears their features: that is ``mask-feature`` with ``masked = nodes``.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ints, pointers, rows_of
from gsx.stages.graphs.subgraphs import induced
from gsx.table import GraphTable


def drop_nodes(
    graphs: GraphTable, rate: float, stream: np.random.Generator
) -> tuple[GraphTable, Ints]:
    """Return what the nodes that stay induce and, per node, its old number in its graph.

    A graph that would lose all nodes keeps one: the last to go if the rate rose.
    """
    owner = rows_of(graphs.node_ptr)
    mark = stream.random(graphs.total_nodes)
    keep = mark >= rate
    bare = np.bincount(owner[keep], minlength=len(graphs)) == 0
    nodes = np.flatnonzero(bare[owner])
    order = nodes[np.lexsort((mark[nodes], owner[nodes]))]
    sizes = graphs.num_nodes[bare]
    keep[order[pointers(sizes[sizes > 0])[1:] - 1]] = True
    return induced(graphs, keep)
