"""Augmenters: what they remove, what they keep, and how often."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gsx.ragged import pointers, row_indices
from gsx.seeds import rng
from gsx.stages.augment.drop_edge import NUM_PAIRS, PAIR, drop_edges, number_node_pairs
from gsx.stages.augment.drop_node import drop_nodes
from gsx.stages.augment.graphons import (
    degree_ranks,
    mean_adjacency,
    sample_edges,
    sample_from_groups,
    sort_by_group,
    universal_singular_value_threshold,
)
from gsx.stages.augment.mask_feature import mask_features, mask_rows
from gsx.table import GraphTable

RATES = st.sampled_from([0.05, 0.3, 0.9])


@st.composite
def graphs(draw, *, loops=True):
    """Draw undirected graphs, some without nodes or edges, some with self-loops."""
    random = rng(draw(st.integers(0, 2**32)), "graphs")
    sizes = np.array(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)))
    edges = []
    for size in sizes:
        matrix = np.triu(random.random((size, size)) < 0.5, 0 if loops else 1)
        edges.append(np.argwhere(matrix | matrix.T))
    ends = np.concatenate(edges).astype(np.int32)
    total = int(sizes.sum())
    return GraphTable(
        node_ptr=pointers(sizes),
        edge_ptr=pointers([len(graph_edges) for graph_edges in edges]),
        graph={"graph_id": np.arange(len(sizes))},
        node={"node_feat": random.normal(size=(total, 3)).astype(np.float32) + 5},
        edge={
            "edge_src": ends[:, 0],
            "edge_dst": ends[:, 1],
            "edge_attr": (ends.min(axis=1) * 10 + ends.max(axis=1)).astype(np.float32)[:, None],
        },
    )


def edge_set(table):
    """Return the edges of all graphs as triples of graph, source and target."""
    ends = np.stack([table.edge_graph(), table.edge["edge_src"], table.edge["edge_dst"]], axis=1)
    return set(map(tuple, ends.tolist()))


def repeat(graph, count):
    return graph.take(np.zeros(count, dtype=np.int64))


def ring(size):
    node = np.arange(size)
    src = np.concatenate([node, (node + 1) % size]).astype(np.int32)
    dst = np.concatenate([(node + 1) % size, node]).astype(np.int32)
    order = np.lexsort((dst, src))
    return GraphTable(
        node_ptr=pointers([size]),
        edge_ptr=pointers([2 * size]),
        node={"node_feat": np.ones((size, 2), dtype=np.float32)},
        edge={"edge_src": src[order], "edge_dst": dst[order]},
    )


# DropEdge


@settings(max_examples=40)
@given(graphs(), RATES, st.integers(0, 99))
def test_drop_edge_removes_both_directions_and_keeps_nodes(table, rate, seed):
    dropped = drop_edges(number_node_pairs(table), rate, rng(seed))
    assert np.array_equal(dropped.node_ptr, table.node_ptr)
    assert np.array_equal(dropped.node["node_feat"], table.node["node_feat"])
    remaining = edge_set(dropped)
    assert remaining <= edge_set(table)
    assert remaining == {(graph, dst, src) for graph, src, dst in remaining}
    ends = np.stack([dropped.edge["edge_src"], dropped.edge["edge_dst"]], axis=1)
    expected = ends.min(axis=1) * 10 + ends.max(axis=1)
    assert dropped.edge["edge_attr"][:, 0].tolist() == expected.tolist()


@settings(max_examples=40)
@given(graphs())
def test_node_pairs_are_numbered_from_0_in_every_graph(table):
    numbered = number_node_pairs(table)
    for row in range(len(table)):
        one = numbered.slice(row, row + 1)
        ends = np.stack([one.edge["edge_src"], one.edge["edge_dst"]], axis=1)
        pairs = {(min(pair), max(pair)) for pair in ends.tolist()}
        assert one.graph[NUM_PAIRS].tolist() == [len(pairs)]
        assert sorted(set(one.edge[PAIR].tolist())) == list(range(len(pairs)))


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_drop_edge_has_the_rate_and_is_independent(rate):
    table = repeat(number_node_pairs(ring(20)), 500)
    dropped = drop_edges(table, rate, rng(0))
    num_dropped = (table.num_edges - dropped.num_edges) / 2
    assert num_dropped.mean() == pytest.approx(20 * rate, rel=0.1)
    assert num_dropped.var() == pytest.approx(20 * rate * (1 - rate), rel=0.2)


# DropNode


@settings(max_examples=40)
@given(graphs(), RATES, st.integers(0, 99))
def test_drop_node_returns_the_induced_subgraph(table, rate, seed):
    dropped, number = drop_nodes(table, rate, rng(seed))
    assert len(dropped) == len(table)
    assert ((dropped.num_nodes > 0) == (table.num_nodes > 0)).all()
    owner = row_indices(dropped.node_ptr)
    rows = table.node_ptr[owner] + number
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(dropped.node["node_feat"], table.node["node_feat"][rows])
    kept = set(zip(owner.tolist(), number.tolist(), strict=True))
    ends = np.stack([dropped.edge["edge_src"], dropped.edge["edge_dst"]], axis=1)
    old = number[dropped.node_ptr[dropped.edge_graph()][:, None] + ends]
    remaining = {tuple(row) for row in np.column_stack([dropped.edge_graph(), old]).tolist()}
    expected = {
        (graph, src, dst)
        for graph, src, dst in edge_set(table)
        if (graph, src) in kept and (graph, dst) in kept
    }
    assert remaining == expected
    assert len(remaining) == dropped.total_edges


def test_drop_node_has_the_rate_and_keeps_at_least_one_node():
    dropped, _ = drop_nodes(repeat(ring(20), 500), 0.2, rng(0))
    assert dropped.num_nodes.mean() == pytest.approx(16, rel=0.02)
    single, number = drop_nodes(repeat(ring(3), 400), 0.99, rng(1))
    assert (single.num_nodes >= 1).all()
    assert (single.num_nodes == 1).mean() > 0.9
    assert np.bincount(number, minlength=3).min() > 80  # all three are equally likely


# MaskFeature


@pytest.mark.parametrize("mode", ["columns", "nodes", "values"])
def test_mask_feature_has_the_rate_and_masks_columns_nodes_or_values(mode):
    features = np.ones((4000, 10), dtype=np.float32)
    ptr = np.arange(0, 4001, 4)
    result, masked = mask_features(features, ptr, 0.2, mode, rng(0))
    assert masked.mean() == pytest.approx(0.2, rel=0.1)
    assert np.array_equal(result, np.where(masked, 0, 1))
    by_graph = masked.reshape(1000, 4, 10)
    columns = (by_graph == by_graph[:, :1]).all()
    nodes = (by_graph == by_graph[:, :, :1]).all()
    assert (columns, nodes) == {"columns": (True, False), "nodes": (False, True),
                                "values": (False, False)}[mode]  # fmt: skip


@settings(max_examples=40)
@given(st.integers(0, 99), st.sampled_from(["columns", "nodes", "values"]), st.booleans())
def test_only_the_given_rows_are_masked(seed, mode, sparse):
    random = rng(seed, "rows")
    dense = np.where(random.random((12, 6)) < 0.5, random.normal(size=(12, 6)), 0)
    rows = np.array([1, 2, 5, 9])
    features = csr_matrix(dense) if sparse else dense
    result = mask_rows(features, rows, 0.5, mode, rng(seed))
    plain = result.toarray() if sparse else result
    others = np.setdiff1d(np.arange(12), rows)
    assert np.array_equal(plain[others], dense[others])
    assert ((plain == dense) | (plain == 0)).all()
    if sparse:
        assert (result.data != 0).all()
        assert result.has_sorted_indices
    if mode == "columns":
        is_masked = (plain[rows] == 0) & (dense[rows] != 0)
        has_values = (plain[rows] != 0).any(axis=0)
        assert not (is_masked.any(axis=0) & has_values).any()


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_masked_features_keep_their_type(dtype):
    features = np.ones((6, 2), dtype=dtype)
    result, _ = mask_features(features, np.array([0, 6]), 0.5, "values", rng(3))
    assert result.dtype == np.dtype(dtype)
    assert set(result.ravel().tolist()) == {0, 1}


# Graphons


@settings(max_examples=40)
@given(graphs(loops=False))
def test_degree_ranks_sort_nodes_by_descending_degree(table):
    rank = degree_ranks(table)
    src = table.node_ptr[table.edge_graph()] + table.edge["edge_src"]
    degree = np.bincount(src, minlength=table.total_nodes)
    for first, last in zip(table.node_ptr[:-1], table.node_ptr[1:], strict=True):
        ranks = rank[first:last]
        assert sorted(ranks.tolist()) == list(range(last - first))
        assert (np.diff(degree[first:last][np.argsort(ranks)]) <= 0).all()


@settings(max_examples=40)
@given(graphs(), st.integers(1, 9))
def test_mean_adjacency_is_the_mean_of_padded_and_truncated_matrices(table, size):
    rank = degree_ranks(table)
    expected = np.zeros((size, size))
    for row in range(len(table)):
        one, ranks = table.slice(row, row + 1), rank[table.node_ptr[row] : table.node_ptr[row + 1]]
        matrix = np.zeros((9, 9))
        matrix[ranks[one.edge["edge_src"]], ranks[one.edge["edge_dst"]]] = 1
        np.fill_diagonal(matrix, 0)
        expected += matrix[:size, :size] / len(table)
    assert np.allclose(mean_adjacency(table, rank, size), expected)


def blocks(within, between, size=8):
    """Return a graphon of two blocks."""
    half = np.arange(size) < size // 2
    graphon = np.where(half[:, None] == half, within, between).astype(float)
    np.fill_diagonal(graphon, 0)
    return graphon


def test_sampled_graphs_have_the_block_densities_of_their_graphon():
    graphons = np.stack([blocks(0.8, 0.1), blocks(0.2, 0.6)])
    chosen = np.arange(3000) % 2
    graph, first, second = sample_edges(graphons, chosen, rng(0))
    assert (first < second).all()
    for which in (0, 1):
        edges = chosen[graph] == which
        density = np.zeros((8, 8))
        np.add.at(density, (first[edges], second[edges]), 1 / 1500)
        error = np.abs(density - np.triu(graphons[which], 1))
        assert error.max() < 5 * np.sqrt(0.25 / 1500)
        assert error[np.triu_indices(8, 1)].mean() < np.sqrt(0.25 / 1500)


def test_sampling_in_chunks_gives_the_same_edges(monkeypatch):
    graphons = np.stack([blocks(0.8, 0.1), blocks(0.0, 0.6)])
    chosen = np.arange(50) % 2
    whole = sample_edges(graphons, chosen, rng(0))
    monkeypatch.setattr("gsx.stages.augment.graphons.CHUNK_DRAWS", 100)
    for one, other in zip(whole, sample_edges(graphons, chosen, rng(0)), strict=True):
        assert np.array_equal(one, other)


def test_empty_graphon_gives_no_edges():
    graph, first, second = sample_edges(np.zeros((1, 4, 4)), np.zeros(5, dtype=int), rng(0))
    assert len(graph) == len(first) == len(second) == 0


@pytest.mark.parametrize(("within", "between"), [(0.8, 0.1), (0.1, 0.6), (0.75, 0.5), (0.3, 0.3)])
def test_thresholding_removes_noise_and_keeps_blocks(within, between):
    truth = blocks(within, between, 40)
    noisy = np.triu(rng(0).binomial(20, truth) / 20, 1)
    noisy = noisy + noisy.T
    graphon = universal_singular_value_threshold(noisy, 20)
    off_diagonal = ~np.eye(40, dtype=bool)
    assert ((graphon >= 0) & (graphon <= 1)).all()
    assert np.array_equal(graphon, graphon.T)
    error = np.abs(graphon - truth)[off_diagonal].mean()
    assert error < 0.5 * np.abs(noisy - truth)[off_diagonal].mean()


def test_ranks_that_occur_in_no_graph_get_no_edges():
    mean = np.zeros((5, 5))
    mean[0, 1] = mean[1, 0] = 1.0
    graphon = universal_singular_value_threshold(mean, 3)
    assert graphon[0, 1] == pytest.approx(1)
    assert np.count_nonzero(graphon) == 2


def test_items_are_sampled_from_their_group():
    order, ptr = sort_by_group(np.array([2, 0, 2, 2]), 3)
    assert ptr.tolist() == [0, 1, 1, 4]
    drawn = order[sample_from_groups(ptr, np.array([0, 2] * 200), rng(0))]
    assert set(drawn[::2].tolist()) == {1}
    assert set(drawn[1::2].tolist()) == {0, 2, 3}
