"""Small graph tables for tests, from networkx graphs or lists of edges."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

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


def graph_of(table, row):
    """Return one graph of a table as networkx."""
    one = table.slice(row, row + 1)
    graph = nx.empty_graph(one.total_nodes)
    graph.add_edges_from(
        zip(one.edge["edge_src"].tolist(), one.edge["edge_dst"].tolist(), strict=True)
    )
    return graph


@st.composite
def networkx_graphs(draw, min_nodes=0):
    """Draw one to four undirected networkx graphs of up to seven nodes."""
    sizes = draw(st.lists(st.integers(min_nodes, 7), min_size=1, max_size=4))
    graphs = []
    for size in sizes:
        graph = nx.empty_graph(size)
        pairs = [(u, v) for u in range(size) for v in range(u)]
        graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])
        graphs.append(graph)
    return graphs
