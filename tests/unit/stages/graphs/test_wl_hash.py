"""Hashes of graphs up to the order of their nodes."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.stages.graphs import wl_hash
from gsx.stages.graphs.wl_hash import contained_in, wl_hashes
from gsx.table import GraphTable
from tests.support.graph_tables import table_from_edges
from tests.support.strategies import tables


def with_features(table, values):
    return table.with_columns(node={"node_feat": np.asarray(values, dtype=np.float32)[:, None]})


def test_graphs_of_different_shape_differ():
    path, star = (4, [(0, 1), (1, 2), (2, 3)]), (4, [(0, 1), (0, 2), (0, 3)])
    assert len(np.unique(wl_hashes(table_from_edges(path, star, (4, []), (5, []))))) == 4


def test_features_and_attributes_count():
    path = table_from_edges((2, [(0, 1)]), (2, [(0, 1)]))
    assert len(np.unique(wl_hashes(path))) == 1
    assert len(np.unique(wl_hashes(with_features(path, [1, 2, 1, 3])))) == 2
    attr = path.with_columns(edge={"edge_attr": np.array([[1], [1], [2], [2]], np.int8)})
    assert len(np.unique(wl_hashes(attr))) == 2


def test_minus_zero_is_zero():
    pair = with_features(table_from_edges((1, []), (1, [])), [0.0, -0.0])
    assert len(np.unique(wl_hashes(pair))) == 1


@given(st.integers(0, 10_000))
def test_the_order_of_nodes_does_not_matter(seed):
    graph = nx.gnp_random_graph(9, 0.35, seed=seed)
    order = np.random.default_rng(seed).permutation(9)
    moved = [(int(order[u]), int(order[v])) for u, v in graph.edges]
    table = table_from_edges((9, list(graph.edges)), (9, moved))
    features = np.arange(9) % 3
    turned = np.empty(9)
    turned[order] = features
    first, second = wl_hashes(with_features(table, [*features, *turned]))
    assert first == second


@pytest.mark.filterwarnings("ignore:The hashes produced")
def test_hashes_distinguish_what_networkx_distinguishes():
    graphs = [nx.gnp_random_graph(7, 0.4, seed=seed) for seed in range(60)]
    ours = wl_hashes(table_from_edges(*[(7, list(graph.edges)) for graph in graphs]))
    theirs = [nx.weisfeiler_lehman_graph_hash(graph, iterations=3) for graph in graphs]
    for left in range(60):
        for right in range(left):
            assert (ours[left] == ours[right]) == (theirs[left] == theirs[right])


def test_a_graph_without_nodes_has_a_hash():
    empty = GraphTable(np.array([0, 0]), np.array([0, 0]), edge={
        "edge_src": np.zeros(0, np.int32), "edge_dst": np.zeros(0, np.int32)})  # fmt: skip
    assert len(wl_hashes(empty)) == 1


@given(tables(), st.integers(1, 9))
def test_runs_cover_every_graph_once(example, size):
    """Graphs without nodes at the start of a table once had no hash at all."""
    table, _ = example
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wl_hash, "_RUN_SIZE", size)
        runs = list(wl_hash._cache_sized_runs(table))
        found = wl_hashes(table)
    assert [row for start, stop in runs for row in range(start, stop)] == list(range(len(table)))
    assert found.tolist() == [int(wl_hashes(table.take([row]))[0]) for row in range(len(table))]


def test_hashes_are_found_among_sorted_ones():
    known = np.array([2, 5, 9], dtype=np.uint64)
    asked = np.array([1, 2, 9, 10, 5], dtype=np.uint64)
    assert contained_in(asked, known).tolist() == [False, True, True, False, True]
    assert contained_in(asked, known[:0]).tolist() == [False] * 5
