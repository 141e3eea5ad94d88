"""Raw files of node-level datasets: parsing and error messages."""

import contextlib
import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.errors import StageError
from gsx.stages.prepare.benchmarks import citations, twitch, webkb
from gsx.stages.prepare.readers.csv_tables import parse_integers


def citation_arrays(**changes):
    """Return the arrays of four papers in the layout of CitationFull."""
    default = {
        "adj_data": np.ones(4, dtype=np.float32),
        "adj_indptr": np.array([0, 2, 3, 4, 4]),
        "adj_indices": np.array([1, 0, 2, 3]),
        "attr_data": np.array([0.5, 2, 0, 1, 1], dtype=np.float32),
        "attr_indptr": np.array([0, 2, 3, 4, 5]),
        "attr_indices": np.array([2, 0, 1, 1, 0]),
        "attr_shape": np.array([4, 3]),
        "labels": np.array([0, 1, 0, 1]),
    }
    return {name: value for name, value in (default | changes).items() if value is not None}


def read(tmp_path, content):
    np.savez(tmp_path / "a.npz", **content)
    return citations.read_word_graph(tmp_path / "a.npz", "a.npz")


def test_word_weights_become_binary_and_self_loops_are_counted(tmp_path):
    graph = read(tmp_path, citation_arrays(class_names=np.array(["ai", "db"])))
    assert graph.words.ptr.tolist() == [0, 2, 2, 3, 4]
    assert graph.words.values.tolist() == [0, 2, 1, 0]
    assert (graph.src.tolist(), graph.dst.tolist(), graph.loops) == ([0, 1, 2], [1, 2, 3], 1)
    assert graph.labels.outputs == ("ai", "db")


@pytest.mark.parametrize("prefix", ["adj_", "attr_"])
def test_alternative_array_names_are_read(tmp_path, prefix):
    renamed = {k.replace(prefix, prefix[:-1] + "_matrix."): v for k, v in citation_arrays().items()}
    renamed["y"] = renamed.pop("labels")
    assert read(tmp_path, renamed).words.equals(read(tmp_path, citation_arrays()).words)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "a.npz has no array `labels` (found adj_data, adj_indices, "
         "adj_indptr, attr_data, attr_indices, attr_indptr, attr_shape). Expected a file in the "
         "layout of CitationFull (arrays adj_*, attr_* and labels)."),
        ({"labels": np.array([0, 1, 0])},
         "a.npz: labels must be 4 integers (found int64 of shape [3])."),
        ({"labels": np.array([0.5, 1, 0, 1])},
         "a.npz: labels must be 4 integers (found float64 of shape [4])."),
        ({"labels": np.array(["a", {}, 1, 2], dtype=object)},
         "a.npz: `labels` cannot be read: it is pickled, and gsx never unpickles."),
        ({"labels": np.zeros(4, dtype=int)},
         "a.npz: `labels` has 1 classes; expected 2..1000."),
        ({"attr_shape": np.array([5, 3])},
         "a.npz: attr has 4 rows, but attr_shape is [5, 3]."),
        ({"attr_shape": np.array([4, 2])}, "a.npz: attr contains word 2; word ids are 0..1."),
        ({"attr_data": np.array([1, np.nan, 1, 1, 1])},
         "a.npz: attr_data contains values that are not finite."),
        ({"attr_data": np.ones(2)},
         "a.npz: attr_data and attr_indices must have the same length."),
        ({"attr_indptr": np.array([0, 2, 1, 4, 5])},
         "a.npz: attr_indptr must increase from 0 to 5, the length of attr_indices."),
        ({"attr_indices": np.ones(5)}, "a.npz: attr_indices must be a list of integers."),
        ({"adj_indptr": np.array([0, 4])}, "a.npz: adj has 1 nodes, but attr has 4."),
        ({"adj_indices": np.array([1, 0, 2, 9])}, "a.npz, adj, row 3: edge from 2 to 9, but "
         "node ids are 0..3. Use node and edge files of the same graph."),
    ],
)  # fmt: skip
def test_inconsistent_arrays_are_rejected(tmp_path, changes, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, citation_arrays(**changes))
    assert str(error.value) == message


PAGES = "node_id\tfeature\tlabel\n1\t0,1\t1\n0\t1,1\t0\n"
LINKS = "node_id\tnode_id\n0\t1\n"


def read_pages(tmp_path, pages=PAGES, links=LINKS):
    for name, text in (("pages.txt.gz", pages), ("links.txt.gz", links)):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    return webkb.read_pages(*((name, tmp_path / name) for name in ("pages.txt.gz", "links.txt.gz")))


def test_pages_are_sorted_by_id(tmp_path):
    pages = read_pages(tmp_path)
    assert pages.words.ptr.tolist() == [0, 2, 3]
    assert pages.words.values.tolist() == [0, 1, 1]
    assert pages.label.tolist() == [0, 1]


@pytest.mark.parametrize("cell", ["²", "1_0", "+1", " 1", "\u0661", "", "0" * 19])
def test_unusual_integer_spellings_are_rejected(cell):
    with pytest.raises(StageError) as error:
        parse_integers(["-7", cell], "a.txt", "label")
    assert str(error.value) == f"a.txt, row 1: label is `{cell}`; expected an integer."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pages": "id,word\n"}, "pages.txt.gz: expected the header `node_id feature label`, "
         "separated by tabs (found `id,word`). Expected WebKB as published by Geom-GCN "
         "(graphdml-uiuc-jlu/geom-gcn, new_data): two tab-separated tables per university."),
        ({"pages": PAGES[:22] + "\n"}, "pages.txt.gz has a header but no rows."),
        ({"pages": PAGES + "2\t0,1\n"}, "pages.txt.gz, row 2: 2 fields; the header has 3."),
        ({"pages": PAGES + "2\t0,1,1\t0\n"},
         "pages.txt.gz, row 2: 3 words; the first page has 2."),
        ({"pages": PAGES + "2\t0,7\t0\n"},
         "pages.txt.gz, row 2: a feature is `7`; expected 0 or 1, separated by commas."),
        ({"pages": PAGES + "5\t0,1\t0\n"}, "pages.txt.gz: node_id must contain each of 0..2 once."),
        ({"pages": PAGES + "2\t0,1\tx\n"},
         "pages.txt.gz, row 2: label is `x`; expected an integer."),
        ({"links": LINKS + "0\t2\n"}, "links.txt.gz, row 1: edge from 0 to 2, but node ids "
         "are 0..1. Use node and edge files of the same graph."),
        ({"links": LINKS + "0\t99999999999999999999\n"}, "links.txt.gz, row 1: node_id is "
         "`99999999999999999999`; expected an integer."),
    ],
)  # fmt: skip
def test_inconsistent_pages_are_rejected(tmp_path, changes, message):
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


def test_repeated_streamers_are_dropped(tmp_path):
    network = read_network(tmp_path, TARGET + "7,True,1\n")
    assert network.repeated == [2]
    assert network.mature.tolist() == [0, 1]
    assert network.features.values.tolist() == [3, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": TARGET + "7,False,1\n"}, "target.csv, row 2: streamer 1 is repeated with "
         "another value of mature. Download the file again."),
        ({"target": TARGET + "7,yes,2\n"},
         "target.csv, row 2: mature is `yes`; expected True or False."),
        ({"target": TARGET + "7,True,3\n"},
         "target.csv: new_id must contain every id in 0..2."),
        ({"target": TARGET + "9,True,2\n"}, "features.json and the target file have different "
         "streamers, such as 2 (1 in total). Use files of the same language."),
        ({"features": '{"0": [3170], "1": []}'}, "features.json: streamer 0 has feature 3170; "
         "feature ids are 0..3169."),
        ({"features": "[1, 2]"}, "features.json must contain one JSON object with a list of "
         "integers per streamer: Expected `object`, got `array`"),
        ({"edges": "from,to\n0,2\n"}, "edges.csv, row 0: edge from 0 to 2, but node ids "
         "are 0..1. Use node and edge files of the same graph."),
    ],
)  # fmt: skip
def test_inconsistent_networks_are_rejected(tmp_path, changes, message):
    with pytest.raises(StageError) as error:
        read_network(tmp_path, **changes)
    assert str(error.value) == message


@st.composite
def damage(draw, data):
    """Draw the bytes of a file with random changes, possibly truncated."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)))]) if draw(st.booleans()) else bytes(
        changed
    )  # fmt: skip


def npz_bytes():
    stream = io.BytesIO()
    np.savez(stream, **citation_arrays())
    return stream.getvalue()


FUZZED = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZED
@given(damage(npz_bytes()))
def test_damaged_arrays_are_read_or_rejected(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    with contextlib.suppress(StageError):
        graph = citations.read_word_graph(tmp_path / "a.npz", "a.npz")
        assert len(graph.words.ptr) == len(graph.labels.label) + 1


@FUZZED
@given(damage(PAGES.encode()), damage(LINKS.encode()))
def test_damaged_pages_are_read_or_rejected(tmp_path, pages, links):
    for name, data in (("pages.txt", pages), ("links.txt", links)):
        (tmp_path / name).write_bytes(data)
    with contextlib.suppress(StageError):
        pages = webkb.read_pages(*((name, tmp_path / name) for name in ("pages.txt", "links.txt")))
        assert len(pages.words.ptr) == len(pages.label) + 1


@FUZZED
@given(damage(TARGET.encode()), damage(b'{"0": [5, 3, 5], "1": []}'), damage(b"from,to\n0,1\n"))
def test_damaged_networks_are_read_or_rejected(tmp_path, target, features, edges):
    files = {"target.csv": target, "features.json": features, "edges.csv": edges}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with contextlib.suppress(StageError):
        network = twitch.read_network([(name, tmp_path / name) for name in files])
        assert len(network.features.ptr) == len(network.mature) + 1
