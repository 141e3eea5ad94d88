"""Base graphs: the kinds beyond the benchmark, compared with networkx."""

import math
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from gsx.stages.prepare.synthetic.base_graphs import (
    ALL_BASES,
    BASES,
    barabasi_albert_neighbors,
    bases,
)

DETERMINISTIC = [name for name in ALL_BASES if name != "barabasi-albert"]
WIDTHS = range(1, 77)


def draw(names, widths, seed=0):
    kind = np.array([ALL_BASES.index(name) for name in names])
    return bases(kind, np.array(widths), np.random.default_rng(seed))


def to_networkx(base, row=0):
    graph = nx.Graph()
    graph.add_nodes_from(range(int(np.diff(base.node_ptr)[row])))
    edges = slice(base.edge_ptr[row], base.edge_ptr[row + 1])
    graph.add_edges_from(zip(base.edge_u[edges].tolist(), base.edge_v[edges].tolist(), strict=True))
    return graph


def grid(width):
    rows = max(3, math.isqrt(width))
    graph = nx.grid_2d_graph(rows, max(3, math.ceil(width / rows)))
    return nx.relabel_nodes(graph, {node: i for i, node in enumerate(sorted(graph))})


def caterpillar(width):
    path = math.ceil(width / 3)
    graph = nx.path_graph(path)
    graph.add_edges_from((node, (node - path) // 2) for node in range(path, width))
    return graph


def cycle(width):
    return nx.cycle_graph(2 * width) if width > 1 else nx.path_graph(2)


def barbell(width):
    clique = max(3, width // 4)
    return nx.barbell_graph(clique, max(1, width - 2 * clique))


@pytest.mark.parametrize(
    ("name", "reference"),
    [("grid", grid), ("caterpillar", caterpillar), ("cycle", cycle), ("barbell", barbell)],
)
def test_new_bases_match_networkx(name, reference):
    together = draw([name] * len(WIDTHS), WIDTHS)
    for row, width in enumerate(WIDTHS):
        graph, expected = to_networkx(together, row), reference(width)
        assert set(graph) == set(expected)
        assert {frozenset(edge) for edge in graph.edges} == {
            frozenset(edge) for edge in expected.edges
        }, width
    assert len(together.edge_u) == together.edge_ptr[-1] == sum(
        reference(width).number_of_edges() for width in WIDTHS
    )  # fmt: skip


def test_a_mixed_batch_equals_single_bases():
    names = [name for _ in WIDTHS for name in DETERMINISTIC]
    widths = [width for width in WIDTHS for _ in DETERMINISTIC]
    together = draw(names, widths)
    alone = [draw([name], [width]) for name, width in zip(names, widths, strict=True)]
    assert together.edge_u.tolist() == [u for base in alone for u in base.edge_u]
    assert together.edge_v.tolist() == [v for base in alone for v in base.edge_v]
    assert together.receptive.tolist() == [node for base in alone for node in base.receptive]


@pytest.mark.parametrize("name", ALL_BASES)
def test_bases_are_connected_and_simple(name):
    together = draw([name] * len(WIDTHS), WIDTHS)
    for row in range(len(WIDTHS)):
        graph = to_networkx(together, row)
        assert nx.is_connected(graph)
        assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("width", [5, 10, 15, 40, 75])
def test_no_two_kinds_are_isomorphic(width):
    graphs = {name: to_networkx(draw([name], [width])) for name in ALL_BASES}
    equal = [
        pair for pair in combinations(ALL_BASES, 2)
        if nx.faster_could_be_isomorphic(*(graphs[name] for name in pair))
        and nx.is_isomorphic(*(graphs[name] for name in pair))
    ]  # fmt: skip
    assert equal == []


def test_perturbation_may_give_an_edge_to_every_node_of_a_new_base():
    new = ALL_BASES[len(BASES) :]
    assert draw(new, [12] * len(new)).receptive.all()


@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_smallest_barabasi_albert_graphs_are_stars(width):
    graph = to_networkx(draw(["barabasi-albert"], [width]))
    assert nx.is_isomorphic(graph, nx.star_graph(width - 1))


def test_new_nodes_of_barabasi_albert_graphs_have_two_earlier_neighbors():
    neighbors = barabasi_albert_neighbors(np.full(500, 40), np.random.default_rng(0))
    grown = neighbors.reshape(500, 40, 2)[:, 3:]
    assert (grown[..., 0] != grown[..., 1]).all()
    assert ((grown >= 0) & (grown < np.arange(3, 40)[:, None])).all()


def test_barabasi_albert_graphs_follow_the_distribution_of_networkx():
    count, width = 1500, 20
    base = draw(["barabasi-albert"] * count, [width] * count)
    graphs = [to_networkx(base, row) for row in range(count)]
    expected = [nx.barabasi_albert_graph(width, 2, seed=seed) for seed in range(count)]
    for measure in (
        lambda graph: graph.degree[0],
        lambda graph: max(dict(graph.degree).values()),
        lambda graph: sum(nx.triangles(graph).values()) / 3,
    ):
        ours, theirs = ([measure(graph) for graph in group] for group in (graphs, expected))
        error = math.sqrt((np.var(ours) + np.var(theirs)) / count)
        assert abs(np.mean(ours) - np.mean(theirs)) <= 4.5 * error


def test_barabasi_albert_graphs_of_one_width_differ():
    base = draw(["barabasi-albert"] * 20, [15] * 20)
    ends = {tuple(base.edge_v[a:b]) for a, b in zip(base.edge_ptr, base.edge_ptr[1:], strict=False)}
    assert len(ends) > 15
