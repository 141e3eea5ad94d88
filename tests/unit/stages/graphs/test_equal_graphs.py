"""Groups of equal graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.graphs.equal_graphs import closed_walks, equal_graphs
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.table import concat
from tests.support.graph_tables import table_from_edges
from tests.support.strategies import tables

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
DECALIN = (10, [(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])
BICYCLOPENTYL = (10, [*RING, *((a + 5, b + 5) for a, b in RING), (0, 5)])


def test_graphs_with_equal_hashes_but_other_rings_differ():
    table = table_from_edges(DECALIN, BICYCLOPENTYL, DECALIN)
    hashes = wl_hashes(table)
    assert hashes[0] == hashes[1]
    group = equal_graphs(table)
    assert group[0] == group[2] != group[1]


def test_texts_distinguish_graphs_that_are_otherwise_equal():
    table = table_from_edges(DECALIN, DECALIN, DECALIN)
    group = equal_graphs(table, ["a", "b", "a"])
    assert group[0] == group[2] != group[1]


def test_features_and_attributes_distinguish_graphs():
    path = table_from_edges((3, [(0, 1), (1, 2)]))

    def with_values(node, edge):
        return path.with_columns(
            node={"node_feat": np.array(node)[:, None]}, edge={"edge_attr": np.array(edge)[:, None]}
        )

    table = concat(
        [
            with_values([1, 2, 3], [5, 5, 6, 6]),
            with_values([3, 2, 1], [6, 6, 5, 5]),  # the same path, from its other end
            with_values([1, 2, 4], [5, 5, 6, 6]),
            with_values([1, 2, 3], [6, 6, 5, 5]),
        ]
    )
    group = equal_graphs(table)
    assert group[0] == group[1]
    assert len(set(group.tolist())) == 3


def test_closed_walks_are_traces_of_powers():
    table = table_from_edges(DECALIN, (4, [(0, 1), (1, 2), (2, 0), (2, 3)]))
    for row, walks in enumerate(closed_walks(table)):
        graph = table.slice(row, row + 1)
        matrix = np.zeros((graph.total_nodes,) * 2)
        matrix[graph.edge["edge_src"], graph.edge["edge_dst"]] = 1
        powers = [np.trace(np.linalg.matrix_power(matrix, k)) for k in (3, 4, 5, 6)]
        assert walks == pytest.approx(powers)


@given(tables(), st.integers(0, 99))
def test_groups_do_not_depend_on_the_order_of_graphs(drawn, seed):
    table, _ = drawn
    order = rng(seed, "order").permutation(2 * len(table)) % max(len(table), 1)
    repeated = table.take(order)
    group = equal_graphs(repeated)
    original = equal_graphs(table)
    same = group[:, None] == group[None]
    assert np.array_equal(same, original[order][:, None] == original[order][None])
