"""Structural linear extrapolation: unions, bridges and the labels that come out."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import Ragged
from gsx.stages.graphs.splice import (
    add_edges,
    hard_labels,
    ruling_labels,
    spliced_labels,
    union,
)
from tests.unit.stages.graphs.test_subgraphs import graph_of, some_graphs, table_of

NAN = np.nan


def y(*rows):
    return np.array(rows, dtype=np.float32)


@given(some_graphs(), some_graphs())
def test_a_union_holds_all_nodes_and_edges_of_its_components(left, right):
    parts = table_of(*left, *right)
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
    table = table_of(nx.path_graph(4), nx.path_graph(3))
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
    table = table_of(nx.path_graph(3))
    table = table.with_columns(edge={"edge_attr": np.array([[1], [1], [2], [2]], np.int8)})
    joined, _, _ = add_edges(
        table, np.array([0]), np.array([0]), np.array([2]), {"edge_attr": np.array([[9]], np.int8)}
    )
    pairs = list(zip(joined.edge["edge_src"].tolist(), joined.edge["edge_dst"].tolist(),
                     strict=True))  # fmt: skip
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert joined.edge["edge_attr"][:, 0].tolist() == [1, 9, 1, 2, 9, 2]


def test_whole_graphs_and_causal_pieces_vote_and_the_rest_does_not():
    labels = y([1, 0, 0], [0, 1, 0], [0, 0, 1])
    mixed = spliced_labels(labels, np.array([1.0, 1.0, 0.0]), np.array([3]))
    assert mixed.tolist() == [[0.5, 0.5, 0.0]]


def test_a_piece_taken_several_times_votes_several_times():
    labels = y([1, 0], [0, 1])
    assert spliced_labels(labels, np.array([3.0, 1.0]), np.array([2])).tolist() == [[0.75, 0.25]]


def test_missing_tasks_do_not_vote_and_stay_missing_when_none_votes():
    labels = y([1, NAN, NAN], [0, 1, NAN])
    found = spliced_labels(labels, np.array([1.0, 1.0]), np.array([2]))
    assert found[0, :2].tolist() == [0.5, 1.0]
    assert np.isnan(found[0, 2])


def test_values_are_averaged():
    assert spliced_labels(y([1.5], [3.5]), np.ones(2), np.array([2])).tolist() == [[2.5]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6))
def test_a_class_distribution_stays_one(pieces):
    labels = np.eye(3, dtype=np.float32)[[label for label, _ in pieces]]
    votes = np.array([vote for _, vote in pieces], dtype=float)
    found = spliced_labels(labels, votes, np.array([len(pieces)]))
    if votes.sum():
        np.testing.assert_allclose(found.sum(), 1, rtol=1e-6)
    else:
        assert np.isnan(found).all()


def test_one_answer_rules_and_surroundings_say_nothing():
    labels = y([0, 0], [0, 1], [1, 1], [1, 0])
    votes, counts = np.array([1.0, 1.0, 0.0, 2.0]), np.array([3, 1])
    assert ruling_labels(labels, votes, counts, 1).tolist() == [[0, 1], [1, 0]]
    assert ruling_labels(labels, votes, counts, 0).tolist() == [[0, 0], [1, 0]]


def test_what_is_missing_might_have_ruled():
    labels = y([NAN, NAN, NAN], [1, 0, NAN])
    found = ruling_labels(labels, np.ones(2), np.array([2]), 1)[0]
    assert found[0] == 1
    assert np.isnan(found[1:]).all()
    assert ruling_labels(labels, np.ones(2), np.array([2]), 0)[0, 1] == 0


def test_labels_are_hard_only_where_nothing_is_mixed():
    assert hard_labels(y([1, 0], [0.5, 0.5], [0, 1]), "classification").tolist() == [0, -1, 1]
    assert hard_labels(y([1], [0.5], [0]), "binary").tolist() == [1, -1, 0]
    assert hard_labels(y([1, 0]), "multitask").tolist() == [-1]
    assert hard_labels(y([2.5]), "regression").tolist() == [-1]
