"""DD and NCI1, the TU readers, and zip files that should not be trusted."""

import io
import stat
import zipfile

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.stages.prepare.benchmarks import tu
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.readers import archives
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.parsed import one_way_warning
from gsx.stages.prepare.readers.tu import read_tu
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table

FILES = {
    "X_A.txt": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "X_graph_indicator.txt": "1\n1\n1\n2\n2\n",
    "X_graph_labels.txt": "-1\n1\n",
    "X_node_labels.txt": "7\n3\n7\n3\n9\n",
}
"""A path of three nodes and a pair."""
COUNTED = "2\n3 0\n5 1 1\n2 2 0 2\n5 1 1\n1 1\n2 0\n"
"""A path of three nodes and a lone node, in the one-file layout."""


def zipped(path, files, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            if mode is not None:
                info.external_attr = mode << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return path


def folder(path, files):
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def read(tmp_path, files):
    return read_tu(zipped(tmp_path / "X.zip", files), "X.zip")


def paths_of(sizes):
    """Return TU files of path graphs of the given sizes, with classes in turn."""
    start = np.cumsum([0, *sizes])
    pairs = [(a, a + 1) for s, n in zip(start, sizes, strict=False) for a in range(s + 1, s + n)]
    lines = "".join(f"{a},{b}\n{b},{a}\n" for a, b in pairs)
    return {
        "P/P_A.txt": lines,
        "P/P_graph_indicator.txt": "".join(f"{g + 1}\n" * n for g, n in enumerate(sizes)),
        "P/P_graph_labels.txt": "".join(f"{g % 2}\n" for g in range(len(sizes))),
        "P/P_node_labels.txt": "".join(f"{k % 3}\n" for k in range(sum(sizes))),
    }


def source_of(tmp_path, sizes, name="nci1-size", **options):
    path = zipped(tmp_path / "nci1/NCI1.zip", paths_of(sizes))
    raw = {"nci1/NCI1.zip": path}
    return tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw, options=options))


def test_graphs_are_read_from_zip_files_and_folders_alike(tmp_path):
    one = read(tmp_path, {f"X//{name}": text for name, text in FILES.items()})
    other = read_tu(folder(tmp_path / "X", FILES), "X")
    assert one.table.equals(other.table)
    assert one.table.num_nodes.tolist() == [3, 2]
    assert one.table.edge["edge_src"].tolist() == [0, 1, 1, 2, 0, 1]
    assert one.table.edge["edge_dst"].tolist() == [1, 0, 2, 1, 1, 0]
    assert one.table.node["node_feat"].tolist() == [[1], [0], [1], [0], [2]]
    assert one.node_words[0].words == ("3", "7", "9")
    assert one.labels.tolist() == [-1, 1]


def test_the_one_file_layout_is_read_too(tmp_path):
    found = read(tmp_path, {"X/X.txt": COUNTED, "__MACOSX/X/._X.txt": "junk"})
    assert found.table.num_nodes.tolist() == [3, 1]
    assert found.table.edge["edge_dst"].tolist() == [1, 0, 2, 1]
    assert found.table.node["node_feat"].tolist() == [[1], [0], [1], [0]]
    assert found.labels.tolist() == [0, 1]


def test_a_direction_that_is_missing_is_added_and_counted(tmp_path):
    files = {**FILES, "X_A.txt": "1,2\n2,3\n3,2\n4,5\n", "X_edge_labels.txt": "4\n5\n5\n6\n"}
    found = read(tmp_path, files)
    assert found.completed == 2
    assert found.table.num_edges.tolist() == [4, 2]
    assert found.table.edge["edge_attr"].tolist() == [[0], [0], [1], [1], [2], [2]]
    assert one_way_warning(found.completed) == (
        "2 edges of the raw files stand in one direction only; the other was added",
    )


def test_attributes_are_values_and_labels_beside_them_are_one_hot(tmp_path):
    values = "X_node_attributes.txt"
    files = {**FILES, values: "0.5,1\n1,1\n2,1\n3,1\n4,1\n"}
    both = read(tmp_path, files).table.node["node_feat"]
    assert both[0].tolist() == [0.5, 1, 0, 1, 0]
    del files["X_node_labels.txt"]
    assert read(tmp_path, files).table.node["node_feat"].shape == (5, 2)
    del files[values]
    assert (read(tmp_path, files).table.node["node_feat"] == 1).all()


def test_graphs_without_nodes_and_values_of_graphs_are_read(tmp_path):
    files = {**FILES, "X_graph_labels.txt": "0\n1\n1\n", "X_graph_attributes.txt": "1.5\nnan\n3\n"}
    found = read(tmp_path, files)
    assert found.table.num_nodes.tolist() == [3, 2, 0]
    np.testing.assert_array_equal(found.values, [[1.5], [np.nan], [3.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X_A.txt": "1,9\n"}, "X.zip: A.txt, line 1: an edge between nodes [1, 9]; "
         "graph_indicator.txt knows nodes 1..5."),
        ({"X_A.txt": "1,2\n3,4\n"}, "X.zip: A.txt, line 2: an edge between graph 1 and graph 2. "
         "The files do not belong together."),
        ({"X_A.txt": "1,2,3\n"}, "X.zip: A.txt has 3 numbers in a line; expected two, of nodes."),
        ({"X_A.txt": "1;2\n"}, "X.zip: A.txt should hold whole numbers only: could not convert "
         "string '1;2' to int64 at row 0, column 1"),
        ({"X_graph_indicator.txt": ""},
         "X.zip: graph_indicator.txt is empty; there are no graphs to read."),
        ({"X_graph_indicator.txt": "1\n2\n1\n2\n2\n"}, "X.zip: graph_indicator.txt, line 3: graph "
         "1; numbers should start at 1 and never fall."),
        ({"X_graph_labels.txt": "1\n"}, "X.zip: graph_labels.txt has 1 lines; graph_indicator.txt "
         "names 2 graphs. The files do not belong together."),
        ({"X_graph_labels.txt": "1\n0.5\n"}, "X.zip: graph_labels.txt should hold whole numbers "
         "only: could not convert string '0.5' to int64 at row 1, column 1"),
        ({"X_node_labels.txt": "1\n"}, "X.zip: node_labels.txt has 1 lines; there are 5 nodes. "
         "The files do not belong together."),
        ({"X_node_attributes.txt": "1\n2\nnan\n4\ninf\n"}, "X.zip: node_attributes.txt, line 3: a "
         "value is not finite (2 such lines). Clean the data; gsx does not guess features."),
        ({"Y_A.txt": "1,2\n"}, "X.zip holds more than one dataset: `X`, `Y`. Keep one."),
    ],
)  # fmt: skip
def test_files_that_disagree_are_refused(tmp_path, change, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, {**FILES, **change})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": ""}, "X.zip is no TU dataset: no file ends in `_A.txt`. It holds `a.csv`."),
        ({}, "X.zip is no TU dataset: no file ends in `_A.txt`. It holds no files."),
        ({"X_A.txt": "1,2\n"}, "X.zip has no file that ends in `_graph_indicator.txt`"),
        ({"X_A.txt": "1,2\n", "X_graph_indicator.txt": "1\n1\n"},
         "X.zip has neither `_graph_labels.txt` nor `_graph_attributes.txt`: there is nothing to "
         "learn."),
        ({"X/X.txt": "2\n3 0\n"}, "X.zip: X.txt, line 6: expected the number of nodes and the "
         "label of graph 2 of 2"),
        ({"X/X.txt": "1\n1 0\n5 2 0\n"},
         "X.zip: X.txt, line 3: expected a tag, a degree and as many neighbors"),
        ({"X/X.txt": "1\n1 0\n5 1 7\n"}, "X.zip: X.txt, line 3: no node 7 in this graph"),
        ({"X/X.txt": "1\n1 0\n5 0\n5 0\n"},
         "X.zip: X.txt: 1 graphs should end at line 3; the file has 4 lines."),
        ({"X/X.txt": "one\n"}, "X.zip: X.txt should hold whole numbers only: invalid literal for "
         "int() with base 10: b'one'"),
    ],
)  # fmt: skip
def test_what_is_no_dataset_is_refused(tmp_path, files, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, files)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["../X_A.txt", "/X_A.txt", "a/../../X_A.txt", "C:/X_A.txt"])
def test_paths_that_escape_are_refused(tmp_path, name):
    with pytest.raises(StageError) as error:
        Archive(zipped(tmp_path / "X.zip", {name: "1"}), "X.zip")
    assert str(error.value) == (
        f"X.zip holds `{name}`, a path that leaves its folder. A dataset has no use for that; "
        "get the file from its source again."
    )


def test_links_are_refused(tmp_path):
    path = zipped(tmp_path / "X.zip", {"X_A.txt": "/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    with pytest.raises(StageError, match=r"^X.zip holds `X_A.txt`, a link; only files are read\.$"):
        Archive(path, "X.zip")


def test_encrypted_files_are_refused(tmp_path):
    path = zipped(tmp_path / "X.zip", {"X_A.txt": "1"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(StageError) as error:
        Archive(path, "X.zip")
    assert str(error.value) == "X.zip: `X_A.txt` is encrypted. Unpack it yourself."


def test_unusual_methods_of_packing_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "X.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X_A.txt", "1")
    with pytest.raises(StageError) as error:
        Archive(tmp_path / "X.zip", "X.zip")
    assert str(error.value) == (
        "X.zip: `X_A.txt` is packed in an unusual way (method 12). Unpack it yourself."
    )


def test_zip_bombs_are_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1000)
    path = zipped(tmp_path / "X.zip", {"X_A.txt": "0" * 1_000_000})
    size = path.stat().st_size
    with pytest.raises(StageError) as error:
        Archive(path, "X.zip")
    assert str(error.value) == (
        f"X.zip is {size:,} bytes and says that it unpacks to 1,000,000; gsx reads at most "
        f"{100 * size:,} of such a file. Unpack it yourself if you trust it."
    )


def test_a_member_that_is_larger_than_it_says_is_refused(tmp_path):
    path = zipped(tmp_path / "X.zip", {"X_A.txt": "0" * 10_000})
    data = path.read_bytes().replace((10_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(StageError, match=r"^X.zip: `X_A.txt` cannot be unpacked: Bad CRC-32"):
        Archive(path, "X.zip").read("X_A.txt")


def test_what_is_no_zip_file_is_refused(tmp_path):
    (tmp_path / "X.zip").write_bytes(b"plain")
    with pytest.raises(StageError) as error:
        read_tu(tmp_path / "X.zip", "X.zip")
    assert str(error.value) == "X.zip cannot be read as a zip file: File is not a zip file"


@pytest.mark.parametrize("seed", range(40))
def test_damaged_zip_files_are_refused_and_never_crash(tmp_path, seed):
    data = bytearray(zipped(tmp_path / "X.zip", FILES).read_bytes())
    generator = np.random.default_rng(seed)
    for at in generator.integers(0, len(data), 8):
        data[at] = generator.integers(0, 256)
    (tmp_path / "Y.zip").write_bytes(data)
    try:
        read_tu(tmp_path / "Y.zip", "Y.zip")
    except StageError as error:
        assert str(error).startswith("Y.zip")  # noqa: PT017


def test_small_graphs_train_and_large_ones_test(tmp_path):
    source = source_of(tmp_path, range(2, 42))
    assert source.split_sizes == {
        "train": 18, "id_val": 2, "id_test": 0, "ood_val": 16, "ood_test": 4,
    }  # fmt: skip
    assert source.build("ood_test", 0, 4).num_nodes.tolist() == [38, 39, 40, 41]
    assert source.build("ood_val", 0, 16).num_nodes.tolist() == list(range(22, 38))
    assert [env.name for env in source.info.environments] == [
        "nodes 2..5", "nodes 6..9", "nodes 10..13", "nodes 14..17", "nodes 18..21",
    ]  # fmt: skip
    assert (source.info.task, source.info.metric) == ("binary", "mcc")
    for split, size in source.split_sizes.items():
        table = validate_table(source.build(split, 0, size), source.info)
        assert (table.graph["env_id"] >= 0).all() != split.startswith("ood") or not size


def test_the_published_protocol_leaves_the_middle_out_and_says_so(tmp_path):
    source = source_of(tmp_path, range(2, 42), protocol="paper", environments=3)
    assert list(source.split_sizes.values()) == [18, 2, 0, 0, 4]
    (dropped,) = source.dropped
    assert (dropped.count, dropped.reason) == (
        16,
        "graphs of sizes between training and testing, which the published protocol leaves out",
    )
    assert len(source.info.environments) == 3


def test_three_classes_are_refused(tmp_path):
    files = paths_of([2, 3, 4])
    files["P/P_graph_labels.txt"] = "0\n1\n2\n"
    raw = {"nci1/NCI1.zip": zipped(tmp_path / "n.zip", files)}
    with pytest.raises(StageError) as error:
        tu.open_tu(DatasetRequest(name="nci1-size", num_graphs=None, seed=0, raw=raw))
    assert str(error.value) == (
        "nci1/NCI1.zip has 3 classes, [0, 1, 2]; expected two. It should be NCI1 of TUDataset "
        "(chrsmrrs.github.io/datasets, 4,110 graphs)."
    )


def test_values_without_labels_are_refused(tmp_path):
    files = paths_of([2, 3, 4])
    files["P/P_graph_attributes.txt"] = files.pop("P/P_graph_labels.txt")
    raw = {"nci1/NCI1.zip": zipped(tmp_path / "n.zip", files)}
    with pytest.raises(StageError) as error:
        tu.open_tu(DatasetRequest(name="nci1-size", num_graphs=None, seed=0, raw=raw))
    assert str(error.value).startswith("nci1/NCI1.zip has no graph labels; it should be NCI1")


def plan_of(name, raw, more=""):
    text = f'[prepare]\ndataset = "{name}"\n{more}'
    return make_plan(parse_recipe(text, "t.toml", raw=str(raw)))


def test_options_are_resolved_and_part_of_the_key(tmp_path):
    zipped(tmp_path / "nci1/NCI1.zip", paths_of(range(2, 42)))
    (plain,) = plan_of("nci1-size", tmp_path)
    (said,) = plan_of("nci1-size", tmp_path, 'protocol = "mid"\nenvironments = 5\n')
    (other,) = plan_of("nci1-size", tmp_path, 'protocol = "paper"\n')
    keys = [identity_of(step, {}).key for step in (plain, said, other)]
    assert keys[0] == keys[1] != keys[2]
    ((_, built),) = run_plan((other,), Store.at(tmp_path / "store"))
    assert built.artifact.manifest.config["protocol"] == "paper"
    assert Corpus(built.artifact).splits == {"train": 18, "id_val": 2, "ood_test": 4}


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("motif-size", 'protocol = "mid"\n',
         "motif-size has no option `protocol`. It has none of its own."),
        ("nci1-size", "environments = 0\n",
         "nci1-size: environments must be a whole number in 1..1000; got 0"),
        ("nci1-size", 'environments = "color"\n',
         "nci1-size: environments must be a whole number in 1..1000; got color"),
        ("nci1-size", "num_graphs = 5\n",
         "nci1-size has as many graphs as its raw files hold; leave out num_graphs."),
    ],
)  # fmt: skip
def test_options_that_a_dataset_has_not_are_refused(tmp_path, name, more, message):
    zipped(tmp_path / "nci1/NCI1.zip", paths_of(range(2, 42)))
    with pytest.raises(UsageError) as error:
        plan_of(name, tmp_path, more)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("name", "file", "sizes", "largest", "words"),
    [
        ("nci1-size", "nci1/NCI1_TU.zip", [1942, 215, 0, 1541, 412], 111, 37),
        ("dd-size", "dd/DD.zip", [533, 59, 0, 468, 118], 5748, 82),
    ],
)
def test_the_published_files_have_the_published_splits(raw_file, name, file, sizes, largest, words):
    path = raw_file(file)
    source = tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw={file: path}))
    assert list(source.split_sizes.values()) == sizes
    assert list(tu.metadata(name).counts.values()) == sizes
    test = source.build("ood_test", 0, sizes[4])
    assert test.num_nodes.max() == largest
    ones = {"nci1-size": 333, "dd-size": 24}[name]
    assert int(test.graph["label"].sum()) == ones
    assert len(source.info.column("node_feat").features[0].words) == words
    assert source.warnings == ()
    assert len(source.info.environments) == 5
    again = tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw={file: path}))
    held = [each.build("id_val", 0, 9).graph["graph_id"].tolist() for each in (source, again)]
    assert held[0] == held[1]


def test_archives_are_read_from_memory_alone(tmp_path):
    before = set(tmp_path.iterdir())
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("X_A.txt", "1")
    (tmp_path / "X.zip").write_bytes(data.getvalue())
    assert Archive(tmp_path / "X.zip", "X.zip").read("X_A.txt") == b"1"
    assert set(tmp_path.iterdir()) - before == {tmp_path / "X.zip"}
