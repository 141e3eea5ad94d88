"""Pieces of graphs: induced subgraphs, components and growth, against networkx."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import row_indices
from gsx.stages.graphs.structural_features import structural_features
from gsx.stages.graphs.subgraphs import (
    component_labels,
    grow_subgraphs,
    induced_subgraphs,
    is_connected,
    largest_component,
    prefix_subgraphs,
    top_nodes,
)
from tests.support.graph_tables import graph_of, networkx_graphs, table_from_networkx


@given(networkx_graphs(), st.randoms(use_true_random=False))
def test_an_induced_subgraph_is_that_of_networkx(graphs, dice):
    table = table_from_networkx(*graphs)
    keep = np.array([dice.random() < 0.6 for _ in range(table.total_nodes)], dtype=bool)
    part, number = induced_subgraphs(table, keep)
    part.validate()
    for row, graph in enumerate(graphs):
        old = number[part.node_ptr[row] : part.node_ptr[row + 1]].tolist()
        renamed = nx.relabel_nodes(graph_of(part, row), dict(enumerate(old)))
        assert nx.utils.graphs_equal(renamed, nx.Graph(graph.subgraph(old)))


@given(networkx_graphs())
def test_components_are_those_of_networkx(graphs):
    table = table_from_networkx(*graphs)
    label = component_labels(table)
    for row, graph in enumerate(graphs):
        mine = label[table.node_ptr[row] : table.node_ptr[row + 1]]
        found = {frozenset(np.flatnonzero(mine == value).tolist()) for value in set(mine)}
        assert found == {frozenset(part) for part in nx.connected_components(graph)}
    expected = [len(graph) == 0 or nx.is_connected(graph) for graph in graphs]
    assert is_connected(table).tolist() == expected


@given(networkx_graphs(), st.randoms(use_true_random=False))
def test_largest_component_matches_networkx(graphs, dice):
    table = table_from_networkx(*graphs)
    keep = np.array([dice.random() < 0.6 for _ in range(table.total_nodes)], dtype=bool)
    stays = largest_component(table, keep)
    assert not (stays & ~keep).any()
    for row, graph in enumerate(graphs):
        first, last = table.node_ptr[row : row + 2]
        kept = graph.subgraph(np.flatnonzero(keep[first:last]).tolist())
        sizes = [len(part) for part in nx.connected_components(kept)]
        chosen = np.flatnonzero(stays[first:last]).tolist()
        assert len(chosen) == max(sizes, default=0)
        assert not chosen or nx.is_connected(graph.subgraph(chosen))


def test_growth_takes_the_best_neighbor_each_time():
    table = table_from_networkx(nx.path_graph(5))
    score = np.array([0.1, 0.5, 0.9, 0.3, 0.8])
    growth = grow_subgraphs(table, score, np.array([2]), 4)
    assert growth.order.tolist() == [[2, 1, 3, 4]]
    assert growth.length.tolist() == [4]


@given(networkx_graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_every_prefix_of_a_growth_is_connected(graphs, dice):
    table = table_from_networkx(*graphs)
    score = np.array([dice.random() for _ in range(table.total_nodes)])
    seeds = top_nodes(table, score, 1)[:, 0]
    growth = grow_subgraphs(table, score, seeds, 5)
    assert growth.order[:, 0].tolist() == seeds.tolist()
    for size in range(1, 6):
        part, nodes = prefix_subgraphs(table, growth.order, np.full(len(graphs), size))
        part.validate()
        assert is_connected(part).all()
        assert part.num_nodes.tolist() == np.minimum(size, growth.length).tolist()
        owner = row_indices(part.node_ptr)
        for row, graph in enumerate(graphs):
            old = nodes[owner == row] - table.node_ptr[row]
            renamed = nx.relabel_nodes(graph_of(part, row), dict(enumerate(old.tolist())))
            assert nx.utils.graphs_equal(renamed, nx.Graph(graph.subgraph(old.tolist())))


def test_a_unit_is_completed_before_other_nodes():
    table = table_from_networkx(nx.path_graph(6))
    score = np.array([0.9, 0.8, 0.1, 0.2, 0.95, 0.3])
    growth = grow_subgraphs(table, score, np.array([1]), 5, unit=np.array([0, 1, 1, 1, 2, 3]))
    assert growth.order.tolist() == [[1, 2, 3, 4, 0]]
    assert growth.complete.tolist() == [[True, False, False, True, True, True]]
    assert growth.rounded_to_units(np.array([2])).tolist() == [3]
    assert growth.rounded_to_units(np.array([4])).tolist() == [4]


def test_a_unit_larger_than_the_growth_gives_size_zero():
    growth = grow_subgraphs(
        table_from_networkx(nx.path_graph(4)), np.ones(4), np.array([0]), 2, unit=np.zeros(4, int)
    )
    assert growth.rounded_to_units(np.array([2])).tolist() == [0]


@given(networkx_graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_a_complete_prefix_splits_no_unit(graphs, dice):
    table = table_from_networkx(*graphs)
    owner = row_indices(table.node_ptr)
    kept = np.array([dice.random() < 0.5 for _ in range(table.total_nodes)], dtype=bool)
    unit = np.unique(component_labels(table, kept), return_inverse=True)[1]
    first = np.array([unit[owner == row].min() for row in range(len(graphs))])
    local = unit - first[owner]
    score = np.array([dice.random() for _ in range(table.total_nodes)])
    growth = grow_subgraphs(table, score, top_nodes(table, score, 1)[:, 0], 5, unit=local)
    for row in range(len(graphs)):
        for size in np.flatnonzero(growth.complete[row]):
            inside = np.isin(np.arange(table.total_nodes), growth.order[row, :size])
            touched = np.isin(unit, unit[inside])
            assert (inside == touched).all()


def test_a_graph_without_a_seed_does_not_grow():
    table = table_from_networkx(nx.path_graph(3), nx.path_graph(3))
    growth = grow_subgraphs(table, np.ones(6), np.array([-1, 3]), 3)
    assert growth.length.tolist() == [0, 3]


def test_top_nodes_are_sorted_and_padded():
    table = table_from_networkx(nx.path_graph(2), nx.empty_graph(0), nx.path_graph(3))
    score = np.array([0.1, 0.9, 0.3, 0.2, 0.7])
    assert top_nodes(table, score, 3).tolist() == [[1, 0, -1], [-1, -1, -1], [4, 2, 3]]


@given(networkx_graphs(min_nodes=1))
def test_return_probabilities_are_the_diagonals_of_powers(graphs):
    table = table_from_networkx(*graphs)
    features = structural_features(table)
    for row, graph in enumerate(graphs):
        matrix = nx.to_numpy_array(graph)
        degree = matrix.sum(axis=1)
        step = matrix / np.maximum(degree, 1)[:, None]
        expected = [np.log1p(degree)]
        expected += [np.diag(np.linalg.matrix_power(step, k)) for k in range(2, 7)]
        found = features[table.node_ptr[row] : table.node_ptr[row + 1]]
        np.testing.assert_allclose(found, np.column_stack(expected), atol=1e-6)
