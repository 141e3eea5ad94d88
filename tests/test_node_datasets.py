"""Datasets that label nodes: counts, graphs, splits, and files that are not what they should be."""

import contextlib
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.columns import SPLITS
from gsx.content import check_content
from gsx.errors import StageError, UsageError
from gsx.ragged import Ragged, pointers
from gsx.seeds import rng
from gsx.stages.datasets import cbas, citations, twitch, webkb
from gsx.stages.datasets.family import Order
from gsx.stages.datasets.nodes import bags, both_ways, same_bags
from gsx.stages.datasets.tables import whole_numbers
from gsx.stages.kernels.houses import houses, preferential
from gsx.stages.kernels.splits import split_counts
from gsx.stages.prepare import PrepareConfig, family_of, raw_files, resolve


def opened(name, folder=None, seed=0):
    """Return the source of a dataset and its one graph."""
    family = family_of(name)
    raw = {} if folder is None else dict(
        each.find(Path(folder)) for each in family.card(name).raw
    )  # fmt: skip
    source = family.open(Order(name=name, num_graphs=None, seed=seed, raw=raw))
    return source, check_content(source.build("all", 0, 1), source.info)


def counts(table):
    return tuple(split_counts(table.dense("node", "node_split").astype(np.int64)).values())


def test_cbas_has_the_published_counts_colors_and_roles():
    source, table = opened("cbas-color")
    assert counts(table) == (420, 70, 70, 70, 70) == tuple(cbas.card("").counts.values())
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
    found = houses(base, links, count, rng(seed, "tests"))
    assert len(found.role) == base + 5 * count
    assert (found.src != found.dst).all()
    inside, outside = found.src >= base, found.dst >= base
    assert (inside & outside).sum() == 6 * count
    assert (inside != outside).sum() == count
    assert len(set(found.src[~inside & outside])) == count
    src, _ = both_ways(found.src, found.dst, len(found.role))
    degree = np.bincount(src, minlength=len(found.role))
    assert (degree[found.role == 3] == 2).all()
    assert (degree[found.role == 2] == 2).all()


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(6, 60))
def test_new_nodes_link_to_old_ones(seed, links, nodes):
    src, dst = preferential(nodes, links, rng(seed, "tests"))
    assert max(src.max(initial=0), dst.max(initial=0)) < nodes
    assert (src >= dst)[src >= links].all()
    assert np.bincount(src, minlength=nodes).max() <= links


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_edges_go_both_ways_once_each_in_order(pairs):
    src, dst = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    found = list(zip(*(each.tolist() for each in both_ways(src, dst, 7)), strict=True))
    assert found == sorted({*pairs, *(pair[::-1] for pair in pairs)})


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1, max_size=6))
def test_bags_hold_what_rows_had_once_and_in_order(rows):
    row = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    column = np.array([value for each in rows for value in each], dtype=np.int64)
    found = bags(row, column, len(rows))
    lists = [found.values[a:b].tolist() for a, b in zip(found.ptr[:-1], found.ptr[1:], strict=True)]
    assert lists == [sorted(set(each)) for each in rows]


def test_equal_bags_are_counted_place_by_place():
    words = Ragged(pointers([2, 1, 2, 1, 0, 0]), np.array([0, 1, 2, 0, 1, 3]))
    assert same_bags(words, np.array([0, 1, 4]), np.array([2, 3, 5])) == 2


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
    folder = raw_file(family_of(name).card(name).raw[0].paths[0]).parents[1]
    source, table = opened(name, folder)
    assert counts(table) == tuple(family_of(name).card(name).counts.values())
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


def arrays(**changes):
    """Return the arrays of four papers in the layout of CitationFull."""
    found = {
        "adj_data": np.ones(4, dtype=np.float32),
        "adj_indptr": np.array([0, 2, 3, 4, 4]),
        "adj_indices": np.array([1, 0, 2, 3]),
        "attr_data": np.array([0.5, 2, 0, 1, 1], dtype=np.float32),
        "attr_indptr": np.array([0, 2, 3, 4, 5]),
        "attr_indices": np.array([2, 0, 1, 1, 0]),
        "attr_shape": np.array([4, 3]),
        "labels": np.array([0, 1, 0, 1]),
    }
    return {name: value for name, value in (found | changes).items() if value is not None}


def read(tmp_path, found):
    np.savez(tmp_path / "a.npz", **found)
    return citations.read_papers(tmp_path / "a.npz", "a.npz")


def test_weights_of_words_become_bags_and_loops_are_counted(tmp_path):
    found = read(tmp_path, arrays(class_names=np.array(["ai", "db"])))
    assert found.words.ptr.tolist() == [0, 2, 2, 3, 4]
    assert found.words.values.tolist() == [0, 2, 1, 0]
    assert (found.src.tolist(), found.dst.tolist(), found.loops) == ([0, 1, 2], [1, 2, 3], 1)
    assert found.labels.outputs == ("ai", "db")


@pytest.mark.parametrize("before", ["adj_", "attr_"])
def test_other_names_of_the_same_arrays_are_read(tmp_path, before):
    named = {k.replace(before, before[:-1] + "_matrix."): v for k, v in arrays().items()}
    named["y"] = named.pop("labels")
    assert read(tmp_path, named).words.equals(read(tmp_path, arrays()).words)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "a.npz has no array `labels`; it holds adj_data, adj_indices, "
         "adj_indptr, attr_data, attr_indices, attr_indptr, attr_shape. It should be in the layout "
         "of CitationFull (arrays adj_*, attr_* and labels)."),
        ({"labels": np.array([0, 1, 0])},
         "a.npz: labels must be 4 whole numbers; found int64 of shape [3]."),
        ({"labels": np.array([0.5, 1, 0, 1])},
         "a.npz: labels must be 4 whole numbers; found float64 of shape [4]."),
        ({"labels": np.array(["a", {}, 1, 2], dtype=object)},
         "a.npz: `labels` cannot be read: it is pickled, and gsx never unpickles."),
        ({"labels": np.zeros(4, dtype=int)},
         "a.npz: `labels` has 1 classes; expected 2..1000."),
        ({"attr_shape": np.array([5, 3])},
         "a.npz: attr is of 4 nodes, and its shape says [5, 3]."),
        ({"attr_shape": np.array([4, 2])}, "a.npz: attr has word 2; words are numbered 0..1."),
        ({"attr_data": np.array([1, np.nan, 1, 1, 1])},
         "a.npz: attr_data holds values that are not finite."),
        ({"attr_data": np.ones(2)},
         "a.npz: attr_data must be as many numbers as attr_indices has."),
        ({"attr_indptr": np.array([0, 2, 1, 4, 5])},
         "a.npz: attr_indptr must rise from 0 to the 5 values of attr_indices."),
        ({"attr_indices": np.ones(5)}, "a.npz: attr_indices must be a list of whole numbers."),
        ({"adj_indptr": np.array([0, 4])}, "a.npz: adj is of 1 nodes, and attr of 4."),
        ({"adj_indices": np.array([1, 0, 2, 9])}, "a.npz, adj, row 3: an edge from 2 to 9, but "
         "nodes are numbered 0..3. The files of one graph must belong together."),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, arrays(**changes))
    assert str(error.value) == message


PAGES = "node_id\tfeature\tlabel\n1\t0,1\t1\n0\t1,1\t0\n"
LINKS = "node_id\tnode_id\n0\t1\n"


def read_pages(tmp_path, pages=PAGES, links=LINKS):
    for name, text in (("pages.txt.gz", pages), ("links.txt.gz", links)):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    return webkb.read_pages(*((name, tmp_path / name) for name in ("pages.txt.gz", "links.txt.gz")))


def test_pages_are_put_in_the_order_of_their_numbers(tmp_path):
    found = read_pages(tmp_path)
    assert found.words.ptr.tolist() == [0, 2, 3]
    assert found.words.values.tolist() == [0, 1, 1]
    assert found.label.tolist() == [0, 1]


@pytest.mark.parametrize("cell", ["²", "1_0", "+1", " 1", "\u0661", "", "0" * 19])
def test_what_only_looks_like_a_number_is_refused(cell):
    with pytest.raises(StageError) as error:
        whole_numbers(["-7", cell], "a.txt", "label")
    assert str(error.value) == f"a.txt, row 1: label is `{cell}`; expected a whole number."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pages": "id,word\n"}, "pages.txt.gz should begin with `node_id feature label`, parted "
         "by tabs; it begins with `id,word`. It should be WebKB as Geom-GCN publishes it "
         "(graphdml-uiuc-jlu/geom-gcn, new_data): two tables parted by tabs per university."),
        ({"pages": PAGES[:22] + "\n"}, "pages.txt.gz has a header and no rows."),
        ({"pages": PAGES + "2\t0,1\n"}, "pages.txt.gz, row 2: 2 fields; the header has 3."),
        ({"pages": PAGES + "2\t0,1,1\t0\n"},
         "pages.txt.gz, row 2: 3 words; the first page has 2."),
        ({"pages": PAGES + "2\t0,7\t0\n"},
         "pages.txt.gz, row 2: a word is `7`; expected 0 or 1, parted by commas."),
        ({"pages": PAGES + "5\t0,1\t0\n"}, "pages.txt.gz: node_id must hold 0..2, each once."),
        ({"pages": PAGES + "2\t0,1\tx\n"},
         "pages.txt.gz, row 2: label is `x`; expected a whole number."),
        ({"links": LINKS + "0\t2\n"}, "links.txt.gz, row 1: an edge from 0 to 2, but nodes are "
         "numbered 0..1. The files of one graph must belong together."),
        ({"links": LINKS + "0\t99999999999999999999\n"}, "links.txt.gz, row 1: node_id is "
         "`99999999999999999999`; expected a whole number."),
    ],
)  # fmt: skip
def test_pages_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(StageError) as error:
        read_pages(tmp_path, **changes)
    assert str(error.value) == message


TARGET = "id,mature,new_id\n7,True,1\n8,False,0\n"


def read_network(tmp_path, target=TARGET, features=None, edges="from,to\n0,1\n"):
    words = json.dumps({"0": [5, 3, 5], "1": []}) if features is None else features
    texts = {"target.csv": target, "features.json": words, "edges.csv": edges}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return twitch.read_network([(name, tmp_path / name) for name in texts])


def test_a_streamer_that_is_named_again_is_left_out(tmp_path):
    found = read_network(tmp_path, TARGET + "7,True,1\n")
    assert found.repeated == [2]
    assert found.mature.tolist() == [0, 1]
    assert found.features.values.tolist() == [3, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": TARGET + "7,False,1\n"}, "target.csv, row 2: streamer 1 is named again, with "
         "another value of mature."),
        ({"target": TARGET + "7,yes,2\n"},
         "target.csv, row 2: mature is `yes`; expected True or False."),
        ({"target": TARGET + "7,True,3\n"},
         "target.csv: new_id must hold 0..2 without a gap."),
        ({"target": TARGET + "9,True,2\n"}, "features.json and the targets beside it differ in "
         "streamer 2 (1 such streamers in all). The files of one language belong together."),
        ({"features": '{"0": [3170], "1": []}'}, "features.json: streamer 0 has feature 3170; "
         "features are numbered 0..3169."),
        ({"features": "[1, 2]"}, "features.json should hold one JSON object with a list of whole "
         "numbers per streamer: Expected `object`, got `array`"),
        ({"edges": "from,to\n0,2\n"}, "edges.csv, row 0: an edge from 0 to 2, but nodes are "
         "numbered 0..1. The files of one graph must belong together."),
    ],
)  # fmt: skip
def test_networks_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(StageError) as error:
        read_network(tmp_path, **changes)
    assert str(error.value) == message


@st.composite
def damage(draw, data):
    """Draw the bytes of a file with some changed, or with its end cut off."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)))]) if draw(st.booleans()) else bytes(
        changed
    )  # fmt: skip


def papers_bytes():
    stream = io.BytesIO()
    np.savez(stream, **arrays())
    return stream.getvalue()


FUZZED = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZED
@given(damage(papers_bytes()))
def test_damaged_arrays_are_read_or_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    with contextlib.suppress(StageError):
        citations.read_papers(tmp_path / "a.npz", "a.npz")


@FUZZED
@given(damage(PAGES.encode()), damage(LINKS.encode()))
def test_damaged_pages_are_read_or_refused(tmp_path, pages, links):
    for name, data in (("pages.txt", pages), ("links.txt", links)):
        (tmp_path / name).write_bytes(data)
    with contextlib.suppress(StageError):
        webkb.read_pages(*((name, tmp_path / name) for name in ("pages.txt", "links.txt")))


@FUZZED
@given(damage(TARGET.encode()), damage(b'{"0": [5, 3, 5], "1": []}'), damage(b"from,to\n0,1\n"))
def test_damaged_networks_are_read_or_refused(tmp_path, target, features, edges):
    files = {"target.csv": target, "features.json": features, "edges.csv": edges}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with contextlib.suppress(StageError):
        twitch.read_network([(name, tmp_path / name) for name in files])
