"""Raw files of labelled nodes: what is read of them, and what they should not be."""

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
        parse_integers(["-7", cell], "a.txt", "label")
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
