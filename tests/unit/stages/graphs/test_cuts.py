"""Sparse cuts: two connected sides, and the edges between them."""

import networkx as nx
import numpy as np

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.graphs.cuts import all_pairs, sparse_cuts
from gsx.stages.graphs.subgraphs import global_edges, induced_subgraphs, is_connected
from gsx.table import GraphTable
from tests.conftest import motif_split


def table_of(*graphs):
    """Return graphs given as a number of nodes and undirected edges."""
    src, dst, nodes, edges = [], [], [0], [0]
    for size, pairs in graphs:
        both = sorted([*pairs, *((v, u) for u, v in pairs)])
        src += [u for u, _ in both]
        dst += [v for _, v in both]
        nodes.append(nodes[-1] + size)
        edges.append(edges[-1] + len(both))
    return GraphTable(
        np.array(nodes),
        np.array(edges),
        edge={"edge_src": np.array(src, np.int32), "edge_dst": np.array(dst, np.int32)},
    )


PATH = (4, [(0, 1), (1, 2), (2, 3)])
BARBELL = (6, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])


def test_both_sides_of_a_cut_are_connected_and_together_are_the_graph():
    table = motif_split("train", 0, 180)
    cuts = sparse_cuts(table, rng(0, "cut"))
    assert cuts.cut.all()
    assert set(cuts.side.tolist()) == {0, 1}
    for side in (0, 1):
        part, _ = induced_subgraphs(table, cuts.side == side)
        assert (part.num_nodes > 0).all()
        assert is_connected(part).all()


def test_a_barbell_is_cut_at_its_handle():
    cuts = sparse_cuts(table_of(BARBELL), rng(0, "cut"), tries=40)
    assert cuts.side.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_only_edges_that_may_be_cut_are_cut():
    table = table_of(PATH)
    src, dst = global_edges(table)
    may = np.minimum(src, dst) == 0
    for seed in range(5):
        cuts = sparse_cuts(table, rng(seed, "cut"), may_cut=may)
        assert cuts.side.tolist() == [0, 1, 1, 1]


def test_graphs_that_cannot_be_cut_are_left_alone():
    table = table_of((1, []), PATH, (0, []), (3, []))
    cuts = sparse_cuts(table, rng(0, "cut"))
    assert cuts.cut.tolist() == [False, True, False, False]
    assert (cuts.side[row_indices(table.node_ptr) != 1] == -1).all()


def test_other_parts_of_a_disconnected_graph_belong_to_neither_side():
    table = table_of((5, [(0, 1), (3, 4)]))
    side = sparse_cuts(table, rng(1, "cut")).side
    assert side.tolist() in ([0, 1, -1, -1, -1], [-1, -1, -1, 0, 1])


def test_repeated_edges_and_loops_do_not_confuse_a_cut():
    table = GraphTable(
        np.array([0, 3]),
        np.array([0, 8]),
        edge={
            "edge_src": np.array([0, 0, 0, 1, 1, 1, 1, 2], np.int32),
            "edge_dst": np.array([0, 1, 1, 0, 0, 1, 2, 1], np.int32),
        },
    )
    side = sparse_cuts(table, rng(0, "cut"), tries=20).side
    assert sorted(side.tolist()) in ([0, 0, 1], [0, 1, 1])
    assert side.tolist() != [0, 1, 0]


def test_cuts_agree_with_networkx_on_what_they_separate():
    graph = nx.grid_2d_graph(3, 4)
    nodes = {node: number for number, node in enumerate(graph)}
    table = table_of((12, [(nodes[u], nodes[v]) for u, v in graph.edges]))
    side = sparse_cuts(table, rng(3, "cut")).side
    numbered = nx.relabel_nodes(graph, nodes)
    for value in (0, 1):
        assert nx.is_connected(numbered.subgraph(np.flatnonzero(side == value).tolist()))


def test_all_pairs_of_two_groups_come_group_by_group():
    pairs = all_pairs(np.array([0, 5]), np.array([1, 2]), np.array([3, 9]), np.array([2, 1]))
    assert pairs.ptr.tolist() == [0, 2, 4]
    assert pairs.left.tolist() == [0, 0, 5, 6]
    assert pairs.right.tolist() == [3, 4, 9, 9]
