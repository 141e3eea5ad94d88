"""Node-level datasets: split sizes, graphs and warnings."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import UsageError
from gsx.ragged import Ragged, pointers
from gsx.schema import SPLITS
from gsx.seeds import rng
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.node_dataset import bags_of_words, count_equal_bags, symmetric_edges
from gsx.stages.prepare.split_methods import split_counts
from gsx.stages.prepare.stage import PrepareConfig, family_of, raw_files, resolve
from gsx.stages.prepare.synthetic import cbas
from gsx.stages.prepare.synthetic.ba_shapes import ba_shapes_graph, barabasi_albert_graph
from gsx.validation import validate_table


def open_dataset(name, folder=None, seed=0):
    """Return a dataset and its graph."""
    family = family_of(name)
    raw = {} if folder is None else dict(
        file.find(Path(folder)) for file in family.metadata(name).raw
    )  # fmt: skip
    dataset = family.open(DatasetRequest(name=name, num_graphs=None, seed=seed, raw=raw))
    return dataset, validate_table(dataset.build("all", 0, 1), dataset.info)


def counts(table):
    return tuple(split_counts(table.dense("node", "node_split").astype(np.int64)).values())


def test_cbas_has_published_split_sizes_colors_and_roles():
    dataset, table = open_dataset("cbas-color")
    assert counts(table) == (420, 70, 70, 70, 70) == tuple(cbas.metadata("").counts.values())
    split, env = table.node["node_split"], table.node["node_env_id"]
    domain = table.node["node_domain_id"]
    assert np.array_equal(table.node["node_feat"], cbas.PALETTE[domain])
    assert np.bincount(domain).tolist() == [112] * 5 + [70, 70]
    assert np.array_equal(env, np.where(domain < 5, domain, -1))
    assert set(domain[split == SPLITS.index("ood_val")]) == {5}
    assert set(domain[split == SPLITS.index("ood_test")]) == {6}
    assert np.bincount(table.node["node_label"]).tolist() == [300, 160, 160, 80]
    assert [environment.name for environment in dataset.info.environments] == [
        "color red", "color green", "color blue", "color yellow", "color cyan",
    ]  # fmt: skip


def test_cbas_depends_on_the_seed_only():
    assert open_dataset("cbas-color")[1].equals(open_dataset("cbas-color")[1])
    assert not open_dataset("cbas-color")[1].equals(open_dataset("cbas-color", seed=1)[1])


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 12))
def test_houses_are_attached_by_one_edge_each(seed, links, count):
    base = 24
    graph = ba_shapes_graph(base, links, count, rng(seed, "tests"))
    assert len(graph.role) == base + 5 * count
    assert (graph.src != graph.dst).all()
    inside, outside = graph.src >= base, graph.dst >= base
    assert (inside & outside).sum() == 6 * count
    assert (inside != outside).sum() == count
    assert len(set(graph.src[~inside & outside])) == count
    src, _ = symmetric_edges(graph.src, graph.dst, len(graph.role))
    degree = np.bincount(src, minlength=len(graph.role))
    assert (degree[graph.role == 3] == 2).all()
    assert (degree[graph.role == 2] == 2).all()


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(6, 60))
def test_new_nodes_are_linked_to_earlier_nodes(seed, links, nodes):
    src, dst = barabasi_albert_graph(nodes, links, rng(seed, "tests"))
    assert max(src.max(initial=0), dst.max(initial=0)) < nodes
    assert (src >= dst)[src >= links].all()
    assert np.bincount(src, minlength=nodes).max() <= links


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_symmetric_edges_are_sorted_and_unique(pairs):
    src, dst = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    edges = list(zip(*(ids.tolist() for ids in symmetric_edges(src, dst, 7)), strict=True))
    assert edges == sorted({*pairs, *(pair[::-1] for pair in pairs)})


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1, max_size=6))
def test_bags_of_words_are_sorted_and_unique(rows):
    row = np.repeat(np.arange(len(rows)), [len(values) for values in rows])
    column = np.array([value for values in rows for value in values], dtype=np.int64)
    bags = bags_of_words(row, column, len(rows))
    lists = [bags.values[a:b].tolist() for a, b in zip(bags.ptr[:-1], bags.ptr[1:], strict=True)]
    assert lists == [sorted(set(values)) for values in rows]


def test_equal_bags_are_counted_by_position():
    words = Ragged(pointers([2, 1, 2, 1, 0, 0]), np.array([0, 1, 2, 0, 1, 3]))
    assert count_equal_bags(words, np.array([0, 1, 4]), np.array([2, 3, 5])) == 2


@pytest.mark.parametrize("name", ["cbas-color", "webkb-university", "cora-word"])
def test_num_graphs_is_rejected(name):
    with pytest.raises(UsageError, match="Remove num_graphs"):
        family_of(name).size(name, 10)


def test_num_graphs_of_a_synthetic_node_dataset_is_rejected():
    with pytest.raises(UsageError) as error:
        resolve(PrepareConfig(dataset="cbas-color", num_graphs=3))
    assert str(error.value) == ("cbas-color is one graph with labelled nodes. Remove num_graphs.")


def test_webkb_has_published_split_sizes_and_warns_about_duplicates(raw_file):
    folder = raw_file("webkb/cornell/out1_graph_edges.txt.gz").parents[2]
    dataset, table = open_dataset("webkb-university", folder)
    assert counts(table) == (244, 61, 61, 125, 126)
    assert dataset.warnings == (
        "cornell and texas hold the same 183 pages: features and labels are equal, and only links "
        "differ. Held-out pages of one may be training pages of the other.",
        "classes of wisconsin are numbered differently: a classifier on words predicts the class "
        "of 3.2% of its pages, and of 72.5% if classes 0 to 4 are renumbered as 1, 0, 3, 4, 2. "
        "Test scores are not meaningful; prepare webkb-aligned instead.",
    )
    assert dataset.info.domains == (
        "university cornell", "university texas", "university wisconsin",
    )  # fmt: skip
    split, domain = table.node["node_split"], table.node["node_domain_id"]
    assert domain.tolist() == [2] * 251 + [0] * 183 + [1] * 183
    assert split[:251].tolist() == [3] * 125 + [4] * 126
    assert np.array_equal(table.node["node_env_id"], np.where(domain < 2, domain, -1))
    assert dataset.info.sparse
    assert dataset.info.num_features == 1703


def test_aligned_webkb_changes_the_classes_of_one_university_only(raw_file):
    folder = raw_file("webkb/cornell/out1_graph_edges.txt.gz").parents[2]
    original, aligned = (
        open_dataset(name, folder) for name in ("webkb-university", "webkb-aligned")
    )
    assert len(aligned[0].warnings) == 1  # about duplicate pages
    assert aligned[0].info.name == "webkb-aligned"
    before, after = (table.node["node_label"] for _, table in (original, aligned))
    assert np.array_equal(after[:251], np.array([1, 0, 3, 4, 2])[before[:251]])
    assert np.array_equal(after[251:], before[251:])
    for name in ("node_split", "node_env_id"):
        assert np.array_equal(original[1].node[name], aligned[1].node[name])
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(original[1].edge[name], aligned[1].edge[name])


def test_twitch_counts_streamers_once(raw_file):
    folder = raw_file("twitch/FR/musae_FR_edges.csv.gz").parents[2]
    dataset, table = open_dataset("twitch-language", folder)
    assert counts(table) == (14450, 3411, 3411, 6549, 6297)
    (dropped,) = dataset.dropped
    assert dropped.count == 2
    assert all(text.startswith("twitch/FR/musae_FR_target.csv.gz, row ") for text in
               dropped.examples)  # fmt: skip
    assert [environment.name for environment in dataset.info.environments] == [
        "language DE", "language EN", "language ES",
    ]  # fmt: skip
    assert table.total_edges == 2 * (153138 + 35324 + 59382 + 112666 + 31299 + 37304)
    assert table.node["node_label"].tolist() == table.node["node_y"][:, 0].tolist()


@pytest.mark.parametrize("name", ["cora-ml-word", "coauthor-cs-word"])
def test_training_papers_have_the_most_words(raw_file, name):
    folder = raw_file(family_of(name).metadata(name).raw[0].paths[0]).parents[1]
    dataset, table = open_dataset(name, folder)
    assert counts(table) == tuple(family_of(name).metadata(name).counts.values())
    words = np.diff(table.lists("node", "node_feat_index").ptr)
    split = table.node["node_split"]
    train, val, test = (words[np.isin(split, codes)] for codes in ((0, 1, 2), (3,), (4,)))
    assert train.min() > val.max() >= val.min() > test.max()
    env = table.node["node_env_id"]
    assert np.unique(env[env >= 0]).tolist() == list(range(len(dataset.info.environments)))
    for number in range(len(dataset.info.environments) - 1):
        assert words[env == number].min() > words[env == number + 1].max()
    src, dst = table.edge["edge_src"], table.edge["edge_dst"]
    assert (src != dst).all()


def test_missing_file_is_described(tmp_path):
    with pytest.raises(UsageError) as error:
        raw_files(PrepareConfig(dataset="cora-word", raw=str(tmp_path)))
    assert str(error.value) == (
        f"cora-word needs cora/cora.npz, and {tmp_path} does not contain it.\nThe file is the full "
        "Cora graph (19,793 papers, abojchevski/graph2gauss), in the layout of CitationFull "
        "(arrays adj_*, attr_* and labels). Put it under a directory DIR and pass `--raw DIR` or "
        "set GSX_RAW_DATA."
    )
