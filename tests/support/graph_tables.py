"""Small graph tables for tests, from networkx graphs or lists of edges."""

import numpy as np

from gsx.ragged import pointers
from gsx.table import GraphTable


def table_from_networkx(*graphs):
    """Return undirected networkx graphs with nodes 0..n-1 as a table, edges sorted by source."""
    return table_from_edges(*((len(graph), list(graph.edges)) for graph in graphs))


def table_from_edges(*graphs):
    """Return graphs, each given by its number of nodes and its undirected edges, as a table.

    Both directions of an edge are stored, sorted by source.
    """
    edges = [sorted({*pairs, *((v, u) for u, v in pairs)}) for _, pairs in graphs]
    flat = np.array([pair for pairs in edges for pair in pairs], dtype=np.int32).reshape(-1, 2)
    return GraphTable(
        node_ptr=pointers([num_nodes for num_nodes, _ in graphs]),
        edge_ptr=pointers([len(pairs) for pairs in edges]),
        edge={"edge_src": flat[:, 0], "edge_dst": flat[:, 1]},
    )
