"""Features of linear models: counts of colors, fingerprints, sizes, means, neighborhoods."""

from collections import Counter, defaultdict

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from gsx.errors import StageError, UsageError
from gsx.ragged import encode_texts
from gsx.schema import SPLITS
from gsx.stages.classical import node_neighborhoods
from gsx.stages.classical.features import COUNTS, KINDS, fit_features
from gsx.table import GraphTable
from tests.support.graph_tables import graph_of, networkx_graphs, table_from_networkx
from tests.support.molecules import table_from_smiles
from tests.support.synthetic_corpora import planted_nodes

ROUNDS = 3


def random_table(seed, count=12, *, features=True):
    graphs = [nx.gnp_random_graph(8, 0.3, seed=100 * seed + row) for row in range(count)]
    table = table_from_networkx(*graphs)
    if not features:
        return table
    random = np.random.default_rng(seed)
    return table.with_columns(
        node={"node_feat": random.integers(0, 2, (table.total_nodes, 1)).astype(np.float32)},
        edge={"edge_attr": np.zeros((table.total_edges, 1), dtype=np.int8)},
    )


def naive_colors(table, row):
    """Return the colors of all rounds as nested tuples, the definition of the subtree kernel."""
    graph = graph_of(table, row)
    values = table.slice(row, row + 1).node["node_feat"][:, 0].tolist()
    colors = {node: (values[node],) for node in graph}
    colored = [(0, color) for color in colors.values()]
    for number in range(1, ROUNDS + 1):
        colors = {
            node: (colors[node], tuple(sorted(colors[other] for other in graph[node])))
            for node in graph
        }
        colored += [(number, color) for color in colors.values()]
    return Counter(colored)


def naive_counts(train, table, min_graphs):
    """Return the columns of the count matrix as a multiset, without the order of colors."""
    in_graphs = defaultdict(int)
    for row in range(len(train)):
        for color in naive_colors(train, row):
            in_graphs[color] += 1
    counters = [naive_colors(table, row) for row in range(len(table))]
    return sorted(
        tuple(counter[color] for counter in counters)
        for color, graphs in in_graphs.items()
        if graphs >= min_graphs
    )


@pytest.mark.parametrize("min_graphs", [1, 2, 4])
def test_wl_counts_are_those_of_the_definition(min_graphs):
    train, other = random_table(1), random_table(2)
    space = fit_features("wl", train, rounds=ROUNDS, min_graphs=min_graphs)
    for table in (train, other):
        matrix = space.transform(table).toarray()
        assert matrix.dtype == np.float32
        columns = sorted(tuple(map(int, column)) for column in matrix.T)
        assert columns == naive_counts(train, table, min_graphs)


@given(networkx_graphs(min_nodes=0))
def test_every_round_counts_every_node(graphs):
    table = table_from_networkx(*graphs)
    counts = fit_features("wl", table, rounds=2, min_graphs=1).transform(table)
    assert counts.sum(axis=1).tolist() == (3 * table.num_nodes).tolist()


def test_edge_attributes_change_counts():
    plain = table_from_networkx(nx.path_graph(3), nx.path_graph(3))
    attr = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int8)[:, None]
    table = plain.with_columns(edge={"edge_attr": attr})
    assert fit_features("wl", plain, min_graphs=1).transform(plain).toarray().std(axis=0).max() == 0
    differing = fit_features("wl", table, min_graphs=1).transform(table).toarray()
    assert (differing[0] != differing[1]).any()


def test_continuous_features_are_binned():
    """Without bins, no two nodes would share a color."""
    random = np.random.default_rng(3)
    graphs = [nx.cycle_graph(20) for _ in range(60)]
    table = table_from_networkx(*graphs)
    for width, colors in ((1, 64), (2, 64), (3, 64), (9, 64)):
        values = random.normal(size=(table.total_nodes, width)).astype(np.float32)
        noisy = table.with_columns(
            node={"node_feat": values},
            edge={"edge_attr": random.normal(size=(table.total_edges, 1))},
        )
        space = fit_features("wl", noisy, rounds=0)
        assert len(space.arrays["vocabulary"]) == colors
        assert (space.transform(noisy).sum(axis=1) == 20).all()


def test_variants_of_counts():
    table = random_table(4)
    counts, log, shares = (
        fit_features("wl", table, counts=variant).transform(table).toarray() for variant in COUNTS
    )
    np.testing.assert_allclose(log, np.log1p(counts), rtol=1e-6)
    np.testing.assert_allclose(shares[:, :-1], counts / table.num_nodes[:, None], rtol=1e-6)
    np.testing.assert_allclose(shares[:, -1], np.log1p(table.num_nodes), rtol=1e-6)


def test_fingerprints_are_those_of_rdkit():
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    texts = ["CCO", "c1ccccc1O", "", "CC(=O)Nc1ccc(O)cc1"]
    table = molecules_table(texts)
    matrix = fit_features("morgan", table).transform(table).toarray()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for row, text in enumerate(texts):
        expected = generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text))
        assert (matrix[row] == expected).all(), text
    assert matrix[2].sum() == 0


def molecules_table(texts):
    table = table_from_networkx(*(nx.path_graph(max(len(text), 1)) for text in texts))
    return table.with_columns(graph={"smiles": encode_texts(texts)})


def test_molecules_have_every_kind_of_graph_feature():
    texts = ["CCO", "CCN", "c1ccccc1", "CC(C)O"]
    table = table_from_smiles(*texts).with_columns(graph={"smiles": encode_texts(texts)})
    for kind in ("wl", "morgan", "size", "mean"):
        matrix = fit_features(kind, table, **({"min_graphs": 1} if kind == "wl" else {}))
        rows = matrix.transform(table).toarray()
        assert len(np.unique(rows, axis=0)) == (3 if kind == "size" else 4), kind


def test_sizes_and_means():
    table = table_from_networkx(nx.path_graph(3), nx.cycle_graph(4)).with_columns(
        node={"node_feat": np.array([0, 0, 2, 1, 2, 2, 2], dtype=np.int8)[:, None]}
    )
    sizes = fit_features("size", table).transform(table).toarray()
    np.testing.assert_allclose(sizes, np.log1p([[3, 4], [4, 8]]), rtol=1e-6)
    shares = fit_features("mean", table).transform(table).toarray()
    expected = [[2 / 3, 0, 1 / 3, np.log(4)], [0, 1 / 4, 3 / 4, np.log(5)]]
    np.testing.assert_allclose(shares, expected, rtol=1e-6)
    numeric = table.with_columns(node={"node_feat": table.node["node_feat"].astype(np.float32)})
    scale = table.node["node_feat"].std()
    means = fit_features("mean", numeric).transform(numeric).toarray()
    np.testing.assert_allclose(means[:, 0], [2 / 3 / scale, 7 / 4 / scale], rtol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_neighborhoods_are_means_over_one_and_two_steps(sparse):
    table, info = planted_nodes(60, sparse=sparse)
    space = fit_features("node", table)
    rows = space.transform(table).toarray()
    width = info.num_features
    own, one, two = rows[:, :width], rows[:, width : 2 * width], rows[:, 2 * width : -1]
    neighbors = (np.roll(own, 1, axis=0) + np.roll(own, -1, axis=0)) / 2
    np.testing.assert_allclose(one, neighbors, atol=1e-5)
    steps = (np.roll(neighbors, 1, axis=0) + np.roll(neighbors, -1, axis=0)) / 2
    np.testing.assert_allclose(two, steps, atol=1e-5)


def test_many_features_are_projected_without_held_out_nodes(monkeypatch):
    monkeypatch.setattr(node_neighborhoods, "MAX_FEATURES", 4)
    monkeypatch.setattr(node_neighborhoods, "COMPONENTS", 3)
    table, info = planted_nodes(60, sparse=True)
    space = fit_features("node", table)
    assert space.transform(table).shape == (60, info.num_features + 2 * 3 + 1)
    changed = table.lists("node", "node_feat_value").values.copy()
    held_out = table.node["node_split"] != SPLITS.index("train")
    ptr = table.lists("node", "node_feat_value").ptr
    changed[np.repeat(held_out, np.diff(ptr))] *= 7
    lists = type(table.lists("node", "node_feat_value"))(ptr, changed)
    other = fit_features("node", table.with_columns(node={"node_feat_value": lists}))
    assert (other.arrays["components"] == space.arrays["components"]).all()


def test_equal_input_gives_equal_bits():
    table = random_table(6)
    for counts in COUNTS:
        one, two = (fit_features("wl", table, counts=counts).transform(table) for _ in range(2))
        for name in ("indptr", "indices", "data"):
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def test_tables_without_graphs_have_features():
    table = random_table(7)
    for kind in ("wl", "size", "mean"):
        space = fit_features(kind, table)
        assert space.transform(table.slice(0, 0)).shape[0] == 0
        empty = GraphTable(np.array([0, 0]), np.array([0, 0]), edge={
            "edge_src": np.zeros(0, np.int32), "edge_dst": np.zeros(0, np.int32)},
            node={"node_feat": np.zeros((0, 1), np.float32)})  # fmt: skip
        assert np.isfinite(space.transform(empty).toarray()).all()


def test_unknown_options_are_refused():
    table = random_table(8)
    with pytest.raises(UsageError, match=r"no features of kind `morgn`\. Did you mean `morgan`"):
        fit_features("morgn", table)
    with pytest.raises(UsageError, match="no variant `sqrt` of counts"):
        fit_features("wl", table, counts="sqrt")
    with pytest.raises(UsageError, match="features of kind `size` are no counts"):
        fit_features("size", table, counts="log")
    with pytest.raises(StageError, match="need molecules"):
        fit_features("morgan", table).transform(table)
    assert set(KINDS) == {"wl", "morgan", "size", "mean", "node"}
