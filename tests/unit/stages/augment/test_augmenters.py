"""What defines each augmenter: what goes, what stays, and how often."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gsx.ragged import pointers, rows_of
from gsx.seeds import rng
from gsx.stages.augment.drop_edge import PAIR, PAIRS, drop_edges, number_pairs
from gsx.stages.augment.drop_node import drop_nodes
from gsx.stages.augment.graphons import (
    draw_of_groups,
    graphon_of,
    group_items,
    mean_adjacency,
    places,
    sample_edges,
)
from gsx.stages.augment.mask_feature import mask_features, mask_rows
from gsx.table import GraphTable

RATES = st.sampled_from([0.05, 0.3, 0.9])


@st.composite
def graphs(draw, *, loops=True):
    """Undirected graphs, both directions stored; some without nodes or edges, some with loops."""
    random = rng(draw(st.integers(0, 2**32)), "graphs")
    sizes = np.array(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)))
    parts = []
    for size in sizes:
        matrix = np.triu(random.random((size, size)) < 0.5, 0 if loops else 1)
        parts.append(np.argwhere(matrix | matrix.T))
    ends = np.concatenate(parts).astype(np.int32)
    total = int(sizes.sum())
    return GraphTable(
        node_ptr=pointers(sizes),
        edge_ptr=pointers([len(part) for part in parts]),
        graph={"graph_id": np.arange(len(sizes))},
        node={"node_feat": random.normal(size=(total, 3)).astype(np.float32) + 5},
        edge={
            "edge_src": ends[:, 0],
            "edge_dst": ends[:, 1],
            "edge_attr": (ends.min(axis=1) * 10 + ends.max(axis=1)).astype(np.float32)[:, None],
        },
    )


def triples(table):
    ends = np.stack([table.edge_graph(), table.edge["edge_src"], table.edge["edge_dst"]], axis=1)
    return set(map(tuple, ends.tolist()))


def many(graph, count):
    return graph.take(np.zeros(count, dtype=np.int64))


def ring(size):
    here = np.arange(size)
    src = np.concatenate([here, (here + 1) % size]).astype(np.int32)
    dst = np.concatenate([(here + 1) % size, here]).astype(np.int32)
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
def test_dropped_edges_go_in_both_directions_and_nodes_stay(table, rate, seed):
    found = drop_edges(number_pairs(table), rate, rng(seed))
    assert np.array_equal(found.node_ptr, table.node_ptr)
    assert np.array_equal(found.node["node_feat"], table.node["node_feat"])
    left = triples(found)
    assert left <= triples(table)
    assert left == {(graph, dst, src) for graph, src, dst in left}
    ends = np.stack([found.edge["edge_src"], found.edge["edge_dst"]], axis=1)
    expected = ends.min(axis=1) * 10 + ends.max(axis=1)
    assert found.edge["edge_attr"][:, 0].tolist() == expected.tolist()


@settings(max_examples=40)
@given(graphs())
def test_pairs_are_numbered_from_0_in_every_graph(table):
    found = number_pairs(table)
    for row in range(len(table)):
        one = found.slice(row, row + 1)
        ends = np.stack([one.edge["edge_src"], one.edge["edge_dst"]], axis=1)
        pairs = {(min(pair), max(pair)) for pair in ends.tolist()}
        assert one.graph[PAIRS].tolist() == [len(pairs)]
        assert sorted(set(one.edge[PAIR].tolist())) == list(range(len(pairs)))


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_edges_are_dropped_at_the_rate_and_independently(rate):
    table = many(number_pairs(ring(20)), 500)
    found = drop_edges(table, rate, rng(0))
    lost = (table.num_edges - found.num_edges) / 2
    assert lost.mean() == pytest.approx(20 * rate, rel=0.1)
    assert lost.var() == pytest.approx(20 * rate * (1 - rate), rel=0.2)


# DropNode


@settings(max_examples=40)
@given(graphs(), RATES, st.integers(0, 99))
def test_what_is_left_of_nodes_is_the_subgraph_they_induce(table, rate, seed):
    found, number = drop_nodes(table, rate, rng(seed))
    assert len(found) == len(table)
    assert ((found.num_nodes > 0) == (table.num_nodes > 0)).all()
    owner = rows_of(found.node_ptr)
    rows = table.node_ptr[owner] + number
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(found.node["node_feat"], table.node["node_feat"][rows])
    kept = set(zip(owner.tolist(), number.tolist(), strict=True))
    old = number[found.node_ptr[found.edge_graph()][:, None]
                 + np.stack([found.edge["edge_src"], found.edge["edge_dst"]], axis=1)]  # fmt: skip
    left = {tuple(row) for row in np.column_stack([found.edge_graph(), old]).tolist()}
    wanted = {
        (graph, src, dst)
        for graph, src, dst in triples(table)
        if (graph, src) in kept and (graph, dst) in kept
    }
    assert left == wanted
    assert len(left) == found.total_edges


def test_nodes_are_dropped_at_the_rate_and_one_always_stays():
    found, _ = drop_nodes(many(ring(20), 500), 0.2, rng(0))
    assert found.num_nodes.mean() == pytest.approx(16, rel=0.02)
    single, number = drop_nodes(many(ring(3), 400), 0.99, rng(1))
    assert (single.num_nodes >= 1).all()
    assert (single.num_nodes == 1).mean() > 0.9
    assert np.bincount(number, minlength=3).min() > 80  # none of the three is preferred


# MaskFeature


@pytest.mark.parametrize("masked", ["columns", "nodes", "values"])
def test_features_are_masked_at_the_rate_in_the_shape_asked_for(masked):
    features = np.ones((4000, 10), dtype=np.float32)
    ptr = np.arange(0, 4001, 4)
    found, hidden = mask_features(features, ptr, 0.2, masked, rng(0))
    assert hidden.mean() == pytest.approx(0.2, rel=0.1)
    assert np.array_equal(found, np.where(hidden, 0, 1))
    by_graph = hidden.reshape(1000, 4, 10)
    columns = (by_graph == by_graph[:, :1]).all()
    nodes = (by_graph == by_graph[:, :, :1]).all()
    assert (columns, nodes) == {"columns": (True, False), "nodes": (False, True),
                                "values": (False, False)}[masked]  # fmt: skip


@settings(max_examples=40)
@given(st.integers(0, 99), st.sampled_from(["columns", "nodes", "values"]), st.booleans())
def test_only_the_given_rows_are_masked_dense_or_sparse(seed, masked, sparse):
    random = rng(seed, "rows")
    dense = np.where(random.random((12, 6)) < 0.5, random.normal(size=(12, 6)), 0)
    rows = np.array([1, 2, 5, 9])
    given_features = csr_matrix(dense) if sparse else dense
    found = mask_rows(given_features, rows, 0.5, masked, rng(seed))
    plain = found.toarray() if sparse else found
    others = np.setdiff1d(np.arange(12), rows)
    assert np.array_equal(plain[others], dense[others])
    assert ((plain == dense) | (plain == 0)).all()
    if sparse:
        assert (found.data != 0).all()
        assert found.has_sorted_indices
    if masked == "columns":
        gone = (plain[rows] == 0) & (dense[rows] != 0)
        stays = (plain[rows] != 0).any(axis=0)
        assert not (gone.any(axis=0) & stays).any()


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_masked_features_keep_their_type(dtype):
    found, _ = mask_features(np.ones((6, 2), dtype=dtype), np.array([0, 6]), 0.5, "values", rng(3))
    assert found.dtype == np.dtype(dtype)
    assert set(found.ravel().tolist()) == {0, 1}


# Graphons


@settings(max_examples=40)
@given(graphs(loops=False))
def test_places_sort_nodes_by_falling_degree(table):
    place = places(table)
    src = table.node_ptr[table.edge_graph()] + table.edge["edge_src"]
    degree = np.bincount(src, minlength=table.total_nodes)
    for first, last in zip(table.node_ptr[:-1], table.node_ptr[1:], strict=True):
        mine = place[first:last]
        assert sorted(mine.tolist()) == list(range(last - first))
        assert (np.diff(degree[first:last][np.argsort(mine)]) <= 0).all()


@settings(max_examples=40)
@given(graphs(), st.integers(1, 9))
def test_the_mean_adjacency_is_the_mean_of_padded_and_cut_matrices(table, size):
    place = places(table)
    expected = np.zeros((size, size))
    for row in range(len(table)):
        one, here = table.slice(row, row + 1), place[table.node_ptr[row] : table.node_ptr[row + 1]]
        matrix = np.zeros((9, 9))
        matrix[here[one.edge["edge_src"]], here[one.edge["edge_dst"]]] = 1
        np.fill_diagonal(matrix, 0)
        expected += matrix[:size, :size] / len(table)
    assert np.allclose(mean_adjacency(table, place, size), expected)


def blocks(within, between, size=8):
    """A graphon of two blocks."""
    half = np.arange(size) < size // 2
    found = np.where(half[:, None] == half, within, between).astype(float)
    np.fill_diagonal(found, 0)
    return found


def test_sampled_graphs_have_the_block_densities_of_their_graphon():
    graphons = np.stack([blocks(0.8, 0.1), blocks(0.2, 0.6)])
    chosen = np.arange(3000) % 2
    graph, first, second = sample_edges(graphons, chosen, rng(0))
    assert (first < second).all()
    for which in (0, 1):
        mine = chosen[graph] == which
        found = np.zeros((8, 8))
        np.add.at(found, (first[mine], second[mine]), 1 / 1500)
        error = np.abs(found - np.triu(graphons[which], 1))
        assert error.max() < 5 * np.sqrt(0.25 / 1500)
        assert error[np.triu_indices(8, 1)].mean() < np.sqrt(0.25 / 1500)


def test_sampling_in_pieces_is_sampling_at_once(monkeypatch):
    graphons = np.stack([blocks(0.8, 0.1), blocks(0.0, 0.6)])
    chosen = np.arange(50) % 2
    whole = sample_edges(graphons, chosen, rng(0))
    monkeypatch.setattr("gsx.stages.augment.graphons.DRAWS", 100)
    for one, other in zip(whole, sample_edges(graphons, chosen, rng(0)), strict=True):
        assert np.array_equal(one, other)


def test_a_graphon_without_edges_gives_none():
    graph, first, second = sample_edges(np.zeros((1, 4, 4)), np.zeros(5, dtype=int), rng(0))
    assert len(graph) == len(first) == len(second) == 0


@pytest.mark.parametrize(("within", "between"), [(0.8, 0.1), (0.1, 0.6), (0.75, 0.5), (0.3, 0.3)])
def test_thresholding_takes_noise_away_and_leaves_the_blocks(within, between):
    truth = blocks(within, between, 40)
    noisy = np.triu(rng(0).binomial(20, truth) / 20, 1)
    noisy = noisy + noisy.T
    found = graphon_of(noisy, 20)
    outside = ~np.eye(40, dtype=bool)
    assert ((found >= 0) & (found <= 1)).all()
    assert np.array_equal(found, found.T)
    error = np.abs(found - truth)[outside].mean()
    assert error < 0.5 * np.abs(noisy - truth)[outside].mean()


def test_places_that_no_graph_has_are_joined_to_none():
    mean = np.zeros((5, 5))
    mean[0, 1] = mean[1, 0] = 1.0
    found = graphon_of(mean, 3)
    assert found[0, 1] == pytest.approx(1)
    assert np.count_nonzero(found) == 2


def test_items_are_drawn_of_their_group_alone():
    order, ptr = group_items(np.array([2, 0, 2, 2]), 3)
    assert ptr.tolist() == [0, 1, 1, 4]
    drawn = order[draw_of_groups(ptr, np.array([0, 2] * 200), rng(0))]
    assert set(drawn[::2].tolist()) == {1}
    assert set(drawn[1::2].tolist()) == {0, 2, 3}
