"""Motif datasets: bases, motifs, perturbation, splits and concept shift."""

import importlib.util
import random
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.ragged import decode_texts, pointers
from gsx.stages.prepare.synthetic.base_graphs import BASES
from gsx.stages.prepare.synthetic.base_graphs import bases as draw_bases
from gsx.stages.prepare.synthetic.motif import DATASETS, build, corpus_info, split_sizes
from gsx.stages.prepare.synthetic.motif_dataset import BLOCK, DEFAULT_NUM_GRAPHS
from gsx.stages.prepare.synthetic.motif_graphs import (
    MOTIFS,
    Adjacency,
    attach,
    motif_graphs,
    noisy_labels,
    perturb,
)
from gsx.table import concat
from gsx.validation import validate_table

SPLITS = ("train", "id_val", "id_test", "ood_val", "ood_test")
WIDTHS = range(1, 21)
WHEEL, TREE, LADDER, STAR, PATH = range(5)
HOUSE, CYCLE, CRANE = range(3)


def load_reference():
    path = Path(__file__).parents[5] / "bench" / "lib" / "motif_reference.py"
    spec = importlib.util.spec_from_file_location("motif_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load_reference()


def generator(seed=0):
    return np.random.default_rng(seed)


def bases(kind, width):
    return draw_bases(kind, width, generator())


def draw(kind, width, motif, seed=0, count=1):
    rows = [np.full(count, value) for value in (kind, width, motif)]
    return motif_graphs(*rows, generator(seed))


def unperturbed(kind, width, motif, anchor):
    base = bases(np.array([kind]), np.array([width]))
    return attach(base, np.array([motif]), np.array([anchor]))


def undirected(src, dst):
    return {(int(u), int(v)) for u, v in zip(src, dst, strict=True) if u < v}


def added_edges(kind, width, motif, seed=0, count=400):
    """Return the edges that perturbation added to each graph, and the number of attempts."""
    graphs = draw(kind, width, motif, seed, count)
    added, plain = [], unperturbed(kind, width, motif, 0)
    first = int(plain.num_nodes[0]) - 5
    _, src, dst = plain.edges()
    expected = undirected(src, dst) - {(0, first)}
    for a, b in pairwise(graphs.edge_ptr):
        edges = undirected(graphs.edge_src[a:b], graphs.edge_dst[a:b])
        assert expected <= edges
        added.append(edges - expected)
    return added, first, int(0.05 * plain.num_edges[0])


def mean_within(values, expected, rounding=1e-9):
    return abs(np.mean(values) - expected) <= rounding + 4.5 * np.sqrt(np.var(values) / len(values))


def same_mean(left, right):
    error = np.sqrt(np.var(left) / len(left) + np.var(right) / len(right))
    return abs(np.mean(left) - np.mean(right)) <= 1e-9 + 4.5 * error


@pytest.mark.parametrize("kind", range(5), ids=BASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_bases_match_networkx(kind, width):
    base = bases(np.array([kind]), np.array([width]))
    expected = reference.build_base(kind, width)
    assert base.node_ptr.tolist() == [0, expected.number_of_nodes()]
    assert len(base.edge_u) == base.edge_ptr[1] == expected.number_of_edges()
    ends = zip(base.edge_u.tolist(), base.edge_v.tolist(), strict=True)
    assert {tuple(sorted(edge)) for edge in ends} == {tuple(sorted(e)) for e in expected.edges}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (WHEEL, [True] * 4),
        (TREE, [True] * 3),
        (LADDER, [True] * 8),
        (STAR, [True, False, False, False, False]),
        (PATH, [False, True, True, False]),
    ],
)
def test_receptive_nodes_of_every_base(kind, expected):
    assert bases(np.array([kind]), np.array([4])).receptive.tolist() == expected


def test_batched_bases_equal_single_bases():
    kind, width = (grid.ravel() for grid in np.meshgrid(np.arange(5), np.array(WIDTHS)))
    together = bases(kind, width)
    alone = [bases(kind[i : i + 1], width[i : i + 1]) for i in range(len(kind))]
    assert together.edge_v.tolist() == [v for base in alone for v in base.edge_v]
    assert together.receptive.tolist() == [node for base in alone for node in base.receptive]


@pytest.mark.parametrize("motif", range(3), ids=MOTIFS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", range(5), ids=BASES)
def test_graph_is_base_and_motif_joined_by_one_edge(kind, width, motif):
    expected = reference.build_base(kind, width)
    first = expected.number_of_nodes()
    anchor = (7 * width) % first
    edges = {tuple(sorted(edge)) for edge in expected.edges}
    edges |= {(first + u, first + v) for u, v in map(sorted, reference.build_motif(motif).edges)}
    adjacency = unperturbed(kind, width, motif, anchor)
    _, src, dst = adjacency.edges()
    assert adjacency.num_nodes.tolist() == [first + 5]
    assert undirected(src, dst) == edges | {(anchor, first)}
    assert adjacency.num_edges.tolist() == [len(edges) + 1]


def test_motifs_are_house_cycle_and_crane():
    crane = nx.complete_bipartite_graph(2, 3)
    house = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1)])
    for motif, expected in ((HOUSE, house), (CYCLE, nx.cycle_graph(5)), (CRANE, crane)):
        _, src, dst = unperturbed(PATH, 1, motif, 0).edges()
        edges = [(u, v) for u, v in undirected(src, dst) if u > 0]
        assert nx.is_isomorphic(nx.Graph(edges), expected)


def test_edges_are_sorted_and_in_both_directions():
    graphs = draw(PATH, 2, HOUSE)
    anchor = int(graphs.edge_dst[graphs.edge_src == 2][0])
    assert anchor in (0, 1)
    pairs = list(zip(graphs.edge_src.tolist(), graphs.edge_dst.tolist(), strict=True))
    once = [(0, 1), (anchor, 2), (2, 3), (2, 6), (3, 4), (3, 6), (4, 5), (5, 6)]
    assert pairs == sorted(once + [(v, u) for u, v in once])


def test_motif_nodes_follow_the_base_and_are_marked():
    graphs = draw(STAR, 3, CRANE)
    assert graphs.node_truth.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_anchors_are_uniform_over_base_nodes():
    graphs = draw(PATH, 4, CYCLE, count=4000)
    anchors = graphs.edge_dst[(graphs.edge_src == 4) & (graphs.edge_dst < 4)]
    share = np.bincount(anchors, minlength=4) / 4000
    np.testing.assert_allclose(share, 0.25, atol=0.03)


@pytest.mark.parametrize("kind", range(5), ids=BASES)
def test_perturbation_adds_no_motif_edges_and_respects_attempts(kind):
    added, first, attempts = added_edges(kind, 30, HOUSE)
    assert max(len(edges) for edges in added) <= attempts + 1  # the edge to the anchor is one more
    assert not any(u >= first for edges in added for u, v in edges)


def test_edges_added_to_a_star_touch_the_hub():
    added, first, _ = added_edges(STAR, 60, CYCLE, count=2000)
    extra = [edges for edges in added if len(edges) > 1]
    assert 0 < len(extra) < 400
    assert all(sum(u != 0 for u, v in edges) <= 1 for edges in extra)
    assert all(v >= first for edges in extra for u, v in edges)


def test_edges_added_to_a_path_touch_an_inner_node():
    added, first, _ = added_edges(PATH, 30, CYCLE, count=2000)
    inner = range(1, 29)
    untouched = [e for edges in added for e in edges if e[0] not in inner and e[1] not in inner]
    assert {edge for edge in untouched if edge[1] != first} == set()


@pytest.mark.parametrize("width", [1, 7, 8, 15])
def test_graphs_with_fewer_than_twenty_edges_are_not_perturbed(width):
    added, _, attempts = added_edges(TREE, width, HOUSE)
    assert attempts == 0
    assert {len(edges) for edges in added} == {1}


def test_perturbation_is_uniform_over_free_pairs():
    base = bases(np.full(17_000, LADDER), np.full(17_000, 5))
    before = attach(base, np.full(17_000, HOUSE), np.zeros(17_000, dtype=int))
    after = perturb(before, np.tile(np.arange(15) < 10, 17_000), generator())
    added = (after.cells & ~before.cells).reshape(-1, 15, 15).sum(axis=0)
    pairs = added[np.triu(added) > 0]
    assert before.num_edges[0] == 20
    assert len(pairs) == 15 * 14 // 2 - 20 - 4  # all but the edges and the free pairs of the house
    assert np.abs(pairs - 200).max() <= 5 * np.sqrt(200)
    assert mean_within(after.num_edges - before.num_edges, 81 / 85)


def test_complete_graphs_are_not_perturbed():
    size = 8
    complete = Adjacency(
        num_nodes=np.array([size, size]),
        num_edges=np.array([28, 28]),
        ptr=pointers([size**2, size**2]),
        cells=np.tile(~np.eye(size, dtype=bool).ravel(), 2),
    )
    after = perturb(complete, np.ones(2 * size, dtype=bool), generator())
    assert after.num_edges.tolist() == [28, 28]


def test_perturbation_does_not_modify_its_argument():
    before = unperturbed(LADDER, 20, HOUSE, 0)
    cells, num_edges = before.cells.copy(), before.num_edges.copy()
    perturb(before, np.ones(45, dtype=bool), generator())
    np.testing.assert_array_equal(before.cells, cells)
    np.testing.assert_array_equal(before.num_edges, num_edges)


@pytest.mark.parametrize(("kind", "width"), [(0, 20), (1, 40), (2, 20), (3, 60), (4, 60)])
def test_edge_counts_follow_the_distribution_of_the_reference(kind, width):
    rng = random.Random(kind)
    slow = [reference.build_graph(kind, width, CRANE, rng).number_of_edges() for _ in range(400)]
    fast = np.diff(draw(kind, width, CRANE, count=4000).edge_ptr) / 2
    assert same_mean(slow, fast)


@pytest.mark.parametrize("split", ["train", "ood_test"])
@pytest.mark.parametrize("name", ["motif-size", "motif-base"])
def test_split_means_match_the_reference(name, split):
    slow = reference.build_graphs(name, split, 400, seed=1)
    table = build(name, split, 0, 4096, seed=0, first_graph_id=0)
    assert same_mean([len(graph) for graph in slow], table.num_nodes)
    assert same_mean([graph.number_of_edges() for graph in slow], table.num_edges / 2)


@pytest.mark.parametrize(
    ("name", "split", "domain", "nodes"),
    [
        ("motif-base", "train", 0, 15.0),
        ("motif-base", "train", 1, 10.9),
        ("motif-base", "train", 2, 25.0),
        ("motif-base", "ood_val", 3, 16.0),
        ("motif-base", "ood_test", 4, 15.0),
        ("motif-size", "train", 0, 12.1),
        ("motif-size", "train", 1, 16.4),
        ("motif-size", "train", 2, 22.3),
        ("motif-size", "ood_val", 3, 39.4),
        ("motif-size", "ood_test", 4, 87.8),
    ],
)
def test_domains_have_the_published_mean_number_of_nodes(name, split, domain, nodes):
    table = build(name, split, 0, 6000, seed=3, first_graph_id=0)
    num_nodes = table.num_nodes[table.dense("graph", "domain_id") == domain]
    assert len(num_nodes) >= 1800
    assert mean_within(num_nodes, nodes, rounding=0.05)


def test_largest_graph_has_the_published_number_of_nodes():
    assert build("motif-size", "ood_test", 0, 3000, seed=0, first_graph_id=0).num_nodes.max() == 155


def test_ten_percent_of_labels_are_resampled():
    motif = np.repeat(np.arange(3), 10_000)
    wrong = noisy_labels(motif, generator()) != motif
    assert mean_within(wrong, 0.1 * 2 / 3)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("motif-size", [18000, 3000, 3000, 3000, 3000]),
        ("motif-base", [18000, 3000, 3000, 3000, 3000]),
        ("motif-size-concept", [12600, 2700, 2700, 6000, 6000]),
        ("motif-base-concept", [12600, 2700, 2700, 6000, 6000]),
    ],
)
def test_splits_have_the_published_sizes(name, sizes):
    assert split_sizes(name, DEFAULT_NUM_GRAPHS) == dict(zip(SPLITS, sizes, strict=True))


@given(st.sampled_from(DATASETS), st.integers(12, 10**6))
def test_splits_are_nonempty_and_cover_all_graphs(name, num_graphs):
    sizes = split_sizes(name, num_graphs)
    assert sum(sizes.values()) == num_graphs
    assert min(sizes.values()) >= 1


@pytest.mark.parametrize(("name", "smallest"), [("motif-size", 10), ("motif-base-concept", 12)])
@pytest.mark.parametrize("fewer", [1, 20])
def test_too_few_graphs_are_rejected_with_the_minimum(name, smallest, fewer):
    split_sizes(name, smallest)
    with pytest.raises(UsageError) as error:
        split_sizes(name, smallest - fewer)
    assert str(error.value) == (
        f"{name}: {smallest - fewer} graphs would leave a split empty. Use at least {smallest}."
    )


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", DATASETS)
def test_every_split_matches_the_schema(name, split):
    table = build(name, split, 5, 300, seed=0, first_graph_id=0)
    info = corpus_info(name)
    validate_table(table, info)
    names = {*table.graph, *table.node, *table.edge}
    assert names == {column.name for column in info.columns}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 2 * BLOCK + 50), max_size=4))
def test_graphs_do_not_depend_on_shard_boundaries(cuts):
    stop = 2 * BLOCK + 50
    points = [0, *sorted(cuts), stop]
    tables = [
        build("motif-size", "train", a, b, seed=1, first_graph_id=40) for a, b in pairwise(points)
    ]
    assert concat(tables).equals(build("motif-size", "train", 0, stop, seed=1, first_graph_id=40))


def test_graphs_depend_on_the_seed():
    one, two, other = (
        build("motif-base", "train", 0, 50, seed=seed, first_graph_id=0) for seed in (7, 7, 8)
    )
    assert one.equals(two)
    assert not np.array_equal(one.node_ptr, other.node_ptr)


def test_id_splits_have_different_graphs():
    left = build("motif-size", "id_val", 0, 50, seed=0, first_graph_id=0)
    right = build("motif-size", "id_test", 0, 50, seed=0, first_graph_id=0)
    assert not np.array_equal(left.node_ptr, right.node_ptr)


def test_graph_ids_start_at_the_first_id_of_the_split():
    table = build("motif-size", "id_val", 3, 6, seed=0, first_graph_id=18_000)
    assert table.dense("graph", "graph_id").tolist() == [18003, 18004, 18005]


@pytest.mark.parametrize("name", DATASETS)
def test_ood_graphs_have_no_environment(name):
    for split in SPLITS:
        env = build(name, split, 0, 200, seed=0, first_graph_id=0).dense("graph", "env_id")
        assert set(env.tolist()) == ({-1} if split.startswith("ood") else {0, 1, 2})


def test_covariate_environments_equal_domains():
    for name, column in (("motif-size", "width_id"), ("motif-base", "basis_id")):
        table = build(name, "train", 0, 500, seed=0, first_graph_id=0)
        np.testing.assert_array_equal(table.graph["env_id"], table.graph["domain_id"])
        np.testing.assert_array_equal(table.graph["env_id"], table.graph[column])


@pytest.mark.parametrize("name", ["motif-size-concept", "motif-base-concept"])
def test_concept_domains_match_the_motif_at_the_stated_rate(name):
    train = build(name, "train", 0, 12_600, seed=0, first_graph_id=0)
    agrees = train.graph["domain_id"] == train.graph["motif_id"]
    for env, match in enumerate((0.99, 0.97, 0.95)):
        assert mean_within(agrees[train.graph["env_id"] == env], match)
    for split, match in (("ood_val", 0.3), ("ood_test", 0.0)):
        table = build(name, split, 0, 6000, seed=0, first_graph_id=0)
        assert mean_within(table.graph["domain_id"] == table.graph["motif_id"], match)
        assert np.bincount(table.graph["domain_id"]).min() > 1800


def test_source_graphs_have_no_provenance():
    table = build("motif-size", "train", 0, 3, seed=0, first_graph_id=0)
    assert decode_texts(table.lists("graph", "provenance.stream")) == ["", "", ""]
    assert len(table.lists("graph", "provenance.parents").values) == 0
    assert np.isnan(table.dense("graph", "provenance.lambda")).all()
    assert table.dense("graph", "provenance.partner").tolist() == [-1, -1, -1]


def test_corpus_info_names_classes_domains_and_environments():
    info = corpus_info("motif-size")
    assert info.outputs == ("house", "cycle", "crane")
    assert info.domains[3:] == ("width 25..35", "width 65..75")
    assert [env.name for env in info.environments] == ["width 1..11", "width 5..15", "width 10..20"]
    assert corpus_info("motif-base-concept").domains == ("wheel", "tree", "ladder")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("motif-sise", "train", 0, 1),
         "no Motif dataset `motif-sise`. Did you mean `motif-size`?"),
        (("motif-size", "training", 0, 1),
         "motif-size: no split `training`. Did you mean `train`?"),
        (("motif-size", "train", 2, 1),
         "motif-size: 2:1 is not a range of graphs of `train`"),
    ],
)  # fmt: skip
def test_invalid_build_arguments_are_rejected(arguments, text):
    with pytest.raises(StageError) as error:
        build(*arguments, seed=0, first_graph_id=0)
    assert str(error.value) == text
