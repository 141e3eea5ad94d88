"""Datasets that label nodes: counts, graphs and splits."""

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
from gsx.stages.prepare.node_dataset import bags_of_words, symmetric_edges, count_equal_bags
from gsx.stages.prepare.split_methods import split_counts
from gsx.stages.prepare.stage import PrepareConfig, family_of, raw_files, resolve
from gsx.stages.prepare.synthetic import cbas
from gsx.stages.prepare.synthetic.ba_shapes import ba_shapes_graph, barabasi_albert_graph
from gsx.validation import validate_table


def opened(name, folder=None, seed=0):
    """Return the source of a dataset and its one graph."""
    family = family_of(name)
    raw = {} if folder is None else dict(
        each.find(Path(folder)) for each in family.metadata(name).raw
    )  # fmt: skip
    source = family.open(DatasetRequest(name=name, num_graphs=None, seed=seed, raw=raw))
    return source, validate_table(source.build("all", 0, 1), source.info)


def counts(table):
    return tuple(split_counts(table.dense("node", "node_split").astype(np.int64)).values())


def test_cbas_has_the_published_counts_colors_and_roles():
    source, table = opened("cbas-color")
    assert counts(table) == (420, 70, 70, 70, 70) == tuple(cbas.metadata("").counts.values())
    split, env = table.node["node_split"], table.node["node_env_id"]
    domain = table.node["node_domain_id"]
    assert np.array_equal(table.node["node_feat"], cbas.PALETTE[domain])
    assert np.bincount(domain).tolist() == [112] * 5 + [70, 70]
    assert np.array_equal(env, np.where(domain < 5, domain, -1))
    assert set(domain[split == SPLITS.index("ood_val")]) == {5}
    assert set(domain[split == SPLITS.index("ood_test")]) == {6}
    assert np.bincount(table.node["node_label"]).tolist() == [300, 160, 160, 80]
    assert [each.name for each in source.info.environments] == [
        "color red", "color green", "color blue", "color yellow", "color cyan",
    ]  # fmt: skip


def test_cbas_depends_on_its_seed_and_on_nothing_else():
    assert opened("cbas-color")[1].equals(opened("cbas-color")[1])
    assert not opened("cbas-color")[1].equals(opened("cbas-color", seed=1)[1])


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 12))
def test_houses_stand_on_a_base_by_one_edge_each(seed, links, count):
    base = 24
    found = ba_shapes_graph(base, links, count, rng(seed, "tests"))
    assert len(found.role) == base + 5 * count
    assert (found.src != found.dst).all()
    inside, outside = found.src >= base, found.dst >= base
    assert (inside & outside).sum() == 6 * count
    assert (inside != outside).sum() == count
    assert len(set(found.src[~inside & outside])) == count
    src, _ = symmetric_edges(found.src, found.dst, len(found.role))
    degree = np.bincount(src, minlength=len(found.role))
    assert (degree[found.role == 3] == 2).all()
    assert (degree[found.role == 2] == 2).all()


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(6, 60))
def test_new_nodes_link_to_old_ones(seed, links, nodes):
    src, dst = barabasi_albert_graph(nodes, links, rng(seed, "tests"))
    assert max(src.max(initial=0), dst.max(initial=0)) < nodes
    assert (src >= dst)[src >= links].all()
    assert np.bincount(src, minlength=nodes).max() <= links


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_edges_go_both_ways_once_each_in_order(pairs):
    src, dst = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    found = list(zip(*(each.tolist() for each in symmetric_edges(src, dst, 7)), strict=True))
    assert found == sorted({*pairs, *(pair[::-1] for pair in pairs)})


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1, max_size=6))
def test_bags_hold_what_rows_had_once_and_in_order(rows):
    row = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    column = np.array([value for each in rows for value in each], dtype=np.int64)
    found = bags_of_words(row, column, len(rows))
    lists = [found.values[a:b].tolist() for a, b in zip(found.ptr[:-1], found.ptr[1:], strict=True)]
    assert lists == [sorted(set(each)) for each in rows]


def test_equal_bags_are_counted_place_by_place():
    words = Ragged(pointers([2, 1, 2, 1, 0, 0]), np.array([0, 1, 2, 0, 1, 3]))
    assert count_equal_bags(words, np.array([0, 1, 4]), np.array([2, 3, 5])) == 2


@pytest.mark.parametrize("name", ["cbas-color", "webkb-university", "cora-word"])
def test_one_graph_cannot_be_made_larger(name):
    with pytest.raises(UsageError, match="leave out num_graphs"):
        family_of(name).size(name, 10)


def test_a_graph_that_is_built_in_is_one_graph():
    with pytest.raises(UsageError) as error:
        resolve(PrepareConfig(dataset="cbas-color", num_graphs=3))
    assert str(error.value) == (
        "cbas-color is one graph whose nodes are labelled; leave out num_graphs."
    )


def test_webkb_has_the_published_counts_and_warns_of_its_twins(raw_file):
    folder = raw_file("webkb/cornell/out1_graph_edges.txt.gz").parents[2]
    source, table = opened("webkb-university", folder)
    assert counts(table) == (244, 61, 61, 125, 126)
    assert source.warnings == (
        "cornell and texas hold the same 183 pages: features and labels are equal, and only links "
        "differ. Held-out pages of one may be training pages of the other.",
        "classes of wisconsin are numbered otherwise: by their words 3.2% of its pages are told as "
        "their own class and 72.5% if classes 0 to 4 are read as 1, 0, 3, 4, 2. Scores on it say "
        "little; prepare webkb-aligned instead.",
    )
    assert source.info.domains == (
        "university cornell", "university texas", "university wisconsin",
    )  # fmt: skip
    split, domain = table.node["node_split"], table.node["node_domain_id"]
    assert domain.tolist() == [2] * 251 + [0] * 183 + [1] * 183
    assert split[:251].tolist() == [3] * 125 + [4] * 126
    assert np.array_equal(table.node["node_env_id"], np.where(domain < 2, domain, -1))
    assert source.info.sparse
    assert source.info.num_features == 1703


def test_aligned_webkb_differs_in_the_class_numbers_of_one_university_alone(raw_file):
    folder = raw_file("webkb/cornell/out1_graph_edges.txt.gz").parents[2]
    as_it_is, aligned = (opened(name, folder) for name in ("webkb-university", "webkb-aligned"))
    assert len(aligned[0].warnings) == 1  # of the twins
    assert aligned[0].info.name == "webkb-aligned"
    before, after = (table.node["node_label"] for _, table in (as_it_is, aligned))
    assert np.array_equal(after[:251], np.array([1, 0, 3, 4, 2])[before[:251]])
    assert np.array_equal(after[251:], before[251:])
    for name in ("node_split", "node_env_id"):
        assert np.array_equal(as_it_is[1].node[name], aligned[1].node[name])
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(as_it_is[1].edge[name], aligned[1].edge[name])


def test_twitch_counts_streamers_once(raw_file):
    folder = raw_file("twitch/FR/musae_FR_edges.csv.gz").parents[2]
    source, table = opened("twitch-language", folder)
    assert counts(table) == (14450, 3411, 3411, 6549, 6297)
    (dropped,) = source.dropped
    assert dropped.count == 2
    assert all(text.startswith("twitch/FR/musae_FR_target.csv.gz, row ") for text in
               dropped.examples)  # fmt: skip
    assert [each.name for each in source.info.environments] == [
        "language DE", "language EN", "language ES",
    ]  # fmt: skip
    assert table.total_edges == 2 * (153138 + 35324 + 59382 + 112666 + 31299 + 37304)
    assert table.node["node_label"].tolist() == table.node["node_y"][:, 0].tolist()


@pytest.mark.parametrize("name", ["cora-ml-word", "coauthor-cs-word"])
def test_papers_with_many_words_train(raw_file, name):
    folder = raw_file(family_of(name).metadata(name).raw[0].paths[0]).parents[1]
    source, table = opened(name, folder)
    assert counts(table) == tuple(family_of(name).metadata(name).counts.values())
    words = np.diff(table.lists("node", "node_feat_index").ptr)
    split = table.node["node_split"]
    train, val, test = (words[np.isin(split, codes)] for codes in ((0, 1, 2), (3,), (4,)))
    assert train.min() > val.max() >= val.min() > test.max()
    env = table.node["node_env_id"]
    assert np.unique(env[env >= 0]).tolist() == list(range(len(source.info.environments)))
    for number in range(len(source.info.environments) - 1):
        assert words[env == number].min() > words[env == number + 1].max()
    src, dst = table.edge["edge_src"], table.edge["edge_dst"]
    assert (src != dst).all()


def test_a_file_that_is_not_there_says_what_to_get(tmp_path):
    with pytest.raises(UsageError) as error:
        raw_files(PrepareConfig(dataset="cora-word", raw=str(tmp_path)))
    assert str(error.value) == (
        f"cora-word is made from cora/cora.npz, and {tmp_path} does not hold it.\nIt is the full "
        "Cora graph (19,793 papers, abojchevski/graph2gauss), in the layout of CitationFull "
        "(arrays adj_*, attr_* and labels). Put it there under a folder of your choice and name "
        "that folder with `--raw DIR` or GSX_RAW_DATA."
    )
