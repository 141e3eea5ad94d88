"""Unions of components and added edges."""

import networkx as nx
import numpy as np
from hypothesis import given

from gsx.ragged import Ragged
from gsx.stages.graphs.splice import add_edges, union
from tests.support.graph_tables import graph_of, networkx_graphs, table_from_networkx


@given(networkx_graphs(), networkx_graphs())
def test_a_union_holds_all_nodes_and_edges_of_its_components(left, right):
    parts = table_from_networkx(*left, *right)
    counts = np.array([len(left), len(right)])
    joined, slot, first = union(parts, counts)
    joined.validate()
    for row, graphs in enumerate((left, right)):
        assert nx.utils.graphs_equal(graph_of(joined, row), nx.disjoint_union_all(graphs))
    assert slot.tolist() == [
        number for graphs in (left, right) for number, graph in enumerate(graphs) for _ in graph
    ]
    sizes = [len(graph) for graph in left]
    assert first[: len(left)].tolist() == [0, *np.cumsum(sizes)[:-1].tolist()]


def test_bridges_are_added_in_both_directions_and_found_again():
    table = table_from_networkx(nx.path_graph(4), nx.path_graph(3))
    joined, ptr, position = add_edges(
        table, np.array([1, 0, 0]), np.array([0, 3, 0]), np.array([2, 0, 2]), {}
    )
    joined.validate()
    assert sorted(graph_of(joined, 0).edges) == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    assert sorted(graph_of(joined, 1).edges) == [(0, 1), (0, 2), (1, 2)]
    bridges = Ragged(ptr, position)
    for row, expected in enumerate(({(0, 2), (2, 0), (0, 3), (3, 0)}, {(0, 2), (2, 0)})):
        one = joined.slice(row, row + 1)
        at = bridges.slice(row, row + 1).values
        pairs = zip(one.edge["edge_src"][at], one.edge["edge_dst"][at], strict=True)
        assert {(int(u), int(v)) for u, v in pairs} == expected


def test_edges_stay_sorted_and_carry_their_features():
    table = table_from_networkx(nx.path_graph(3))
    table = table.with_columns(edge={"edge_attr": np.array([[1], [1], [2], [2]], np.int8)})
    joined, _, _ = add_edges(
        table, np.array([0]), np.array([0]), np.array([2]), {"edge_attr": np.array([[9]], np.int8)}
    )
    pairs = list(zip(joined.edge["edge_src"].tolist(), joined.edge["edge_dst"].tolist(),
                     strict=True))  # fmt: skip
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert joined.edge["edge_attr"][:, 0].tolist() == [1, 9, 1, 2, 9, 2]
