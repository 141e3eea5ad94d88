"""Motifs: definitions, and no motif inside another or inside a base."""

from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.isomorphism import GraphMatcher

from gsx.stages.prepare.synthetic.base_graphs import ALL_BASES, bases
from gsx.stages.prepare.synthetic.motif2 import DATASETS as MOTIF2
from gsx.stages.prepare.synthetic.motif_graphs import ALL_MOTIFS, motif_graphs

PATH = ALL_BASES.index("path")


def motif_graph(name):
    """Return a motif, without the base node it is attached to."""
    shape = np.array([ALL_MOTIFS.index(name)])
    drawn = motif_graphs(np.array([PATH]), np.array([1]), shape, np.random.default_rng(0))
    pairs = zip(drawn.edge_src.tolist(), drawn.edge_dst.tolist(), strict=True)
    return nx.Graph(pair for pair in pairs if 0 not in pair)


GRAPHS = {name: motif_graph(name) for name in ALL_MOTIFS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("house", nx.house_graph()),
        ("cycle", nx.cycle_graph(5)),
        ("crane", nx.complete_bipartite_graph(2, 3)),
        ("diamond", nx.diamond_graph()),
        ("bull", nx.bull_graph()),
        ("clique", nx.complete_graph(4)),
        ("butterfly", nx.windmill_graph(2, 3)),
    ],
)
def test_motifs_match_networkx(name, expected):
    assert nx.is_isomorphic(GRAPHS[name], expected)


def test_all_motifs_are_defined_above():
    assert len(ALL_MOTIFS) == 7


@pytest.mark.parametrize(("inner", "outer"), list(permutations(ALL_MOTIFS, 2)))
def test_no_motif_is_an_induced_subgraph_of_another(inner, outer):
    assert not GraphMatcher(GRAPHS[outer], GRAPHS[inner]).subgraph_is_isomorphic()


def test_a_fan_contains_a_diamond():
    """The reason why a fan is not among the motifs; it also checks the matcher."""
    fan = nx.path_graph(4)
    fan.add_edges_from((4, node) for node in range(4))
    assert GraphMatcher(fan, GRAPHS["diamond"]).subgraph_is_isomorphic()


@pytest.mark.parametrize("name", list(MOTIF2))
def test_no_confirmation_motif_is_any_subgraph_of_another(name):
    for inner, outer in permutations(MOTIF2[name].motifs, 2):
        assert not GraphMatcher(GRAPHS[outer], GRAPHS[inner]).subgraph_is_monomorphic()


@pytest.mark.parametrize("base", [b for b in MOTIF2["motif2-base"].bases if "albert" not in b])
def test_no_confirmation_motif_is_an_induced_subgraph_of_a_base(base):
    widths = np.arange(1, 21)
    drawn = bases(np.full(20, ALL_BASES.index(base)), widths, np.random.default_rng(0))
    for row in range(20):
        edges = slice(drawn.edge_ptr[row], drawn.edge_ptr[row + 1])
        graph = nx.Graph(zip(drawn.edge_u[edges], drawn.edge_v[edges], strict=True))
        for motif in MOTIF2["motif2-base"].motifs:
            assert not GraphMatcher(graph, GRAPHS[motif]).subgraph_is_isomorphic(), widths[row]


@pytest.mark.parametrize("motif", ALL_MOTIFS)
def test_one_edge_joins_motif_and_base(motif):
    count = 300
    shape = np.full(count, ALL_MOTIFS.index(motif))
    kind = np.arange(count) % len(ALL_BASES)
    graphs = motif_graphs(kind, np.full(count, 6), shape, np.random.default_rng(0))
    size = len(GRAPHS[motif])
    for row in range(count):
        truth = graphs.node_truth[graphs.node_ptr[row] : graphs.node_ptr[row + 1]]
        assert truth.sum() == truth[-size:].sum() == size
        ends = slice(graphs.edge_ptr[row], graphs.edge_ptr[row + 1])
        graph = nx.Graph(zip(graphs.edge_src[ends], graphs.edge_dst[ends], strict=True))
        motif_nodes = np.flatnonzero(truth)
        assert nx.is_isomorphic(graph.subgraph(motif_nodes), GRAPHS[motif])
        first = len(truth) - size
        assert graph.degree[first] >= GRAPHS[motif].degree[min(GRAPHS[motif])] + 1


def test_barabasi_albert_bases_are_drawn_for_every_graph():
    kind = np.full(50, ALL_BASES.index("barabasi-albert"))
    graphs = motif_graphs(kind, np.full(50, 12), np.zeros(50, dtype=int), np.random.default_rng(0))
    drawn = {
        tuple(graphs.edge_dst[a:b].tolist())
        for a, b in zip(graphs.edge_ptr, graphs.edge_ptr[1:], strict=False)
    }
    assert len(drawn) > 45
