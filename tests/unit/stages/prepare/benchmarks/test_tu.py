"""DD and NCI1, the TU reader, and checks of untrusted zip files."""

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
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.parsed import one_way_warning
from gsx.stages.prepare.readers.tu import read_tu
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table
from tests.support.raw_files import tu_path_graphs, write_folder, write_zip

FILES = {
    "X_A.txt": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "X_graph_indicator.txt": "1\n1\n1\n2\n2\n",
    "X_graph_labels.txt": "-1\n1\n",
    "X_node_labels.txt": "7\n3\n7\n3\n9\n",
}
"""A path of three nodes and a path of two nodes."""
ONE_FILE = "2\n3 0\n5 1 1\n2 2 0 2\n5 1 1\n1 1\n2 0\n"
"""A path of three nodes and a single node, in the one-file layout."""


def read(tmp_path, files):
    return read_tu(write_zip(tmp_path / "X.zip", files), "X.zip")


def open_dataset(tmp_path, sizes, name="nci1-size", **options):
    path = write_zip(tmp_path / "nci1/NCI1.zip", tu_path_graphs(sizes))
    raw = {"nci1/NCI1.zip": path}
    return tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw=raw, options=options))


def test_zip_files_and_folders_give_equal_graphs(tmp_path):
    one = read(tmp_path, {f"X//{name}": text for name, text in FILES.items()})
    other = read_tu(write_folder(tmp_path / "X", FILES), "X")
    assert one.table.equals(other.table)
    assert one.table.num_nodes.tolist() == [3, 2]
    assert one.table.edge["edge_src"].tolist() == [0, 1, 1, 2, 0, 1]
    assert one.table.edge["edge_dst"].tolist() == [1, 0, 2, 1, 1, 0]
    assert one.table.node["node_feat"].tolist() == [[1], [0], [1], [0], [2]]
    assert one.node_words[0].words == ("3", "7", "9")
    assert one.labels.tolist() == [-1, 1]


def test_one_file_layout_is_read(tmp_path):
    graphs = read(tmp_path, {"X/X.txt": ONE_FILE, "__MACOSX/X/._X.txt": "junk"})
    assert graphs.table.num_nodes.tolist() == [3, 1]
    assert graphs.table.edge["edge_dst"].tolist() == [1, 0, 2, 1]
    assert graphs.table.node["node_feat"].tolist() == [[1], [0], [1], [0]]
    assert graphs.labels.tolist() == [0, 1]


def test_missing_reverse_edges_are_added_and_counted(tmp_path):
    files = {**FILES, "X_A.txt": "1,2\n2,3\n3,2\n4,5\n", "X_edge_labels.txt": "4\n5\n5\n6\n"}
    graphs = read(tmp_path, files)
    assert graphs.completed == 2
    assert graphs.table.num_edges.tolist() == [4, 2]
    assert graphs.table.edge["edge_attr"].tolist() == [[0], [0], [1], [1], [2], [2]]
    assert one_way_warning(graphs.completed) == (
        "2 edges occur in one direction only; the reverse edges were added",
    )


def test_node_labels_become_one_hot_next_to_node_attributes(tmp_path):
    values = "X_node_attributes.txt"
    files = {**FILES, values: "0.5,1\n1,1\n2,1\n3,1\n4,1\n"}
    both = read(tmp_path, files).table.node["node_feat"]
    assert both[0].tolist() == [0.5, 1, 0, 1, 0]
    del files["X_node_labels.txt"]
    assert read(tmp_path, files).table.node["node_feat"].shape == (5, 2)
    del files[values]
    assert (read(tmp_path, files).table.node["node_feat"] == 1).all()


def test_empty_graphs_and_graph_attributes_are_read(tmp_path):
    files = {**FILES, "X_graph_labels.txt": "0\n1\n1\n", "X_graph_attributes.txt": "1.5\nnan\n3\n"}
    graphs = read(tmp_path, files)
    assert graphs.table.num_nodes.tolist() == [3, 2, 0]
    np.testing.assert_array_equal(graphs.values, [[1.5], [np.nan], [3.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X_A.txt": "1,9\n"}, "X.zip: A.txt, line 1: edge between nodes [1, 9], but "
         "node ids in graph_indicator.txt are 1..5. Use files of the same dataset."),
        ({"X_A.txt": "1,2\n3,4\n"}, "X.zip: A.txt, line 2: edge between graph 1 and graph 2. "
         "Use files of the same dataset."),
        ({"X_A.txt": "1,2,3\n"}, "X.zip: A.txt has 3 numbers per line; expected two node ids."),
        ({"X_A.txt": "1;2\n"}, "X.zip: A.txt must contain only integers: could not convert "
         "string '1;2' to int64 at row 0, column 1"),
        ({"X_graph_indicator.txt": ""},
         "X.zip: graph_indicator.txt is empty; expected the graph of every node."),
        ({"X_graph_indicator.txt": "1\n2\n1\n2\n2\n"}, "X.zip: graph_indicator.txt, line 3: graph "
         "1; graph ids must start at 1 and never decrease."),
        ({"X_graph_labels.txt": "1\n"}, "X.zip: graph_labels.txt has 1 lines, but "
         "graph_indicator.txt has 2 graphs. Use files of the same dataset."),
        ({"X_graph_labels.txt": "1\n0.5\n"}, "X.zip: graph_labels.txt must contain only "
         "integers: could not convert string '0.5' to int64 at row 1, column 1"),
        ({"X_node_labels.txt": "1\n"}, "X.zip: node_labels.txt has 1 lines, but there are 5 "
         "nodes. Use files of the same dataset."),
        ({"X_node_attributes.txt": "1\n2\nnan\n4\ninf\n"}, "X.zip: node_attributes.txt, line 3: a "
         "value is not finite (2 lines in total). Replace NaN and infinite values; gsx does not "
         "impute features."),
        ({"Y_A.txt": "1,2\n"}, "X.zip contains more than one dataset: `X`, `Y`. Keep one."),
    ],
)  # fmt: skip
def test_inconsistent_files_are_rejected(tmp_path, change, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, {**FILES, **change})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": ""}, "X.zip is not a TU dataset: no file ends in `_A.txt` (found `a.csv`)."),
        ({}, "X.zip is not a TU dataset: no file ends in `_A.txt` (found no files)."),
        ({"X_A.txt": "1,2\n"}, "X.zip has no file that ends in `_graph_indicator.txt`."),
        ({"X_A.txt": "1,2\n", "X_graph_indicator.txt": "1\n1\n"},
         "X.zip has no targets: neither `_graph_labels.txt` nor `_graph_attributes.txt` exists."),
        ({"X/X.txt": "2\n3 0\n"}, "X.zip: X.txt, line 6: expected the number of nodes and the "
         "label of graph 2 of 2."),
        ({"X/X.txt": "1\n1 0\n5 2 0\n"},
         "X.zip: X.txt, line 3: expected a tag, a degree, and one id per neighbor."),
        ({"X/X.txt": "1\n1 0\n5 1 7\n"}, "X.zip: X.txt, line 3: this graph has no node 7."),
        ({"X/X.txt": "1\n1 0\n5 0\n5 0\n"},
         "X.zip: X.txt: 1 graphs should end at line 3, but the file has 4 lines."),
        ({"X/X.txt": "one\n"}, "X.zip: X.txt must contain only integers: invalid literal for "
         "int() with base 10: b'one'"),
    ],
)  # fmt: skip
def test_archives_without_a_dataset_are_rejected(tmp_path, files, message):
    with pytest.raises(StageError) as error:
        read(tmp_path, files)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["../X_A.txt", "/X_A.txt", "a/../../X_A.txt", "C:/X_A.txt"])
def test_paths_outside_the_archive_are_rejected(tmp_path, name):
    with pytest.raises(StageError) as error:
        Archive(write_zip(tmp_path / "X.zip", {name: "1"}), "X.zip")
    assert str(error.value) == (
        f"X.zip: the path `{name}` points outside the archive. Download the file again from its "
        "source."
    )


def test_symbolic_links_are_rejected(tmp_path):
    path = write_zip(tmp_path / "X.zip", {"X_A.txt": "/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    with pytest.raises(StageError, match=r"^X.zip: `X_A.txt` is a symbolic link\. Replace"):
        Archive(path, "X.zip")


def test_encrypted_members_are_rejected(tmp_path):
    path = write_zip(tmp_path / "X.zip", {"X_A.txt": "1"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(StageError) as error:
        Archive(path, "X.zip")
    assert str(error.value) == "X.zip: `X_A.txt` is encrypted. Unpack it yourself."


def test_unsupported_compression_is_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "X.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X_A.txt", "1")
    with pytest.raises(StageError) as error:
        Archive(tmp_path / "X.zip", "X.zip")
    assert str(error.value) == (
        "X.zip: `X_A.txt` uses an unsupported compression (method 12). Unpack it yourself."
    )


def test_zip_bombs_are_rejected_before_unpacking(tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_UNPACKED_BYTES", "1000")
    path = write_zip(tmp_path / "X.zip", {"X_A.txt": "0" * 1_000_000})
    size = path.stat().st_size
    with pytest.raises(StageError) as error:
        Archive(path, "X.zip")
    assert str(error.value) == (
        f"X.zip has {size:,} bytes and would unpack to 1,000,000 bytes; the limit is "
        f"{100 * size:,}. Unpack it yourself if you trust it, or set GSX_LIMIT_UNPACKED_BYTES to a "
        "larger number."
    )


def test_member_larger_than_its_header_is_rejected(tmp_path):
    path = write_zip(tmp_path / "X.zip", {"X_A.txt": "0" * 10_000})
    data = path.read_bytes().replace((10_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(StageError, match=r"^X.zip: `X_A.txt` cannot be unpacked: Bad CRC-32"):
        Archive(path, "X.zip").read("X_A.txt")


def test_file_that_is_not_a_zip_file_is_rejected(tmp_path):
    (tmp_path / "X.zip").write_bytes(b"plain")
    with pytest.raises(StageError) as error:
        read_tu(tmp_path / "X.zip", "X.zip")
    assert str(error.value) == "X.zip is not a readable zip file: File is not a zip file"


@pytest.mark.parametrize("seed", range(40))
def test_damaged_zip_files_raise_stage_errors_only(tmp_path, seed):
    data = bytearray(write_zip(tmp_path / "X.zip", FILES).read_bytes())
    generator = np.random.default_rng(seed)
    for position in generator.integers(0, len(data), 8):
        data[position] = generator.integers(0, 256)
    (tmp_path / "Y.zip").write_bytes(data)
    try:
        graphs = read_tu(tmp_path / "Y.zip", "Y.zip")
    except StageError as error:
        assert str(error).startswith("Y.zip")  # noqa: PT017
    else:
        assert graphs.labels is not None


def test_training_graphs_are_small_and_test_graphs_large(tmp_path):
    dataset = open_dataset(tmp_path, range(2, 42))
    assert dataset.split_sizes == {
        "train": 18, "id_val": 2, "id_test": 0, "ood_val": 16, "ood_test": 4,
    }  # fmt: skip
    assert dataset.build("ood_test", 0, 4).num_nodes.tolist() == [38, 39, 40, 41]
    assert dataset.build("ood_val", 0, 16).num_nodes.tolist() == list(range(22, 38))
    assert [env.name for env in dataset.info.environments] == [
        "nodes 2..5", "nodes 6..9", "nodes 10..13", "nodes 14..17", "nodes 18..21",
    ]  # fmt: skip
    assert (dataset.info.task, dataset.info.metric) == ("binary", "mcc")
    for split, size in dataset.split_sizes.items():
        table = validate_table(dataset.build(split, 0, size), dataset.info)
        assert (table.graph["env_id"] >= 0).all() != split.startswith("ood") or not size


def test_published_protocol_drops_and_lists_medium_graphs(tmp_path):
    dataset = open_dataset(tmp_path, range(2, 42), protocol="paper", environments=3)
    assert list(dataset.split_sizes.values()) == [18, 2, 0, 0, 4]
    (dropped,) = dataset.dropped
    assert (dropped.count, dropped.reason) == (
        16,
        "graphs of sizes between training and testing, which the published protocol leaves out",
    )
    assert len(dataset.info.environments) == 3


def test_three_classes_are_rejected(tmp_path):
    files = tu_path_graphs([2, 3, 4])
    files["P/P_graph_labels.txt"] = "0\n1\n2\n"
    raw = {"nci1/NCI1.zip": write_zip(tmp_path / "n.zip", files)}
    with pytest.raises(StageError) as error:
        tu.open_tu(DatasetRequest(name="nci1-size", num_graphs=None, seed=0, raw=raw))
    assert str(error.value) == (
        "nci1/NCI1.zip has 3 classes, [0, 1, 2]; expected two. Expected file: NCI1 of TUDataset "
        "(chrsmrrs.github.io/datasets, 4,110 graphs)."
    )


def test_attributes_without_labels_are_rejected(tmp_path):
    files = tu_path_graphs([2, 3, 4])
    files["P/P_graph_attributes.txt"] = files.pop("P/P_graph_labels.txt")
    raw = {"nci1/NCI1.zip": write_zip(tmp_path / "n.zip", files)}
    with pytest.raises(StageError) as error:
        tu.open_tu(DatasetRequest(name="nci1-size", num_graphs=None, seed=0, raw=raw))
    assert str(error.value).startswith("nci1/NCI1.zip has no graph labels. Expected NCI1")


def plan_of(name, raw, more=""):
    text = f'[prepare]\ndataset = "{name}"\n{more}'
    return make_plan(parse_recipe(text, "t.toml", raw=str(raw)))


def test_options_are_resolved_and_part_of_the_key(tmp_path):
    write_zip(tmp_path / "nci1/NCI1.zip", tu_path_graphs(range(2, 42)))
    (plain,) = plan_of("nci1-size", tmp_path)
    (explicit,) = plan_of("nci1-size", tmp_path, 'protocol = "mid"\nenvironments = 5\n')
    (other,) = plan_of("nci1-size", tmp_path, 'protocol = "paper"\n')
    keys = [identity_of(step, {}).key for step in (plain, explicit, other)]
    assert keys[0] == keys[1] != keys[2]
    ((_, built),) = run_plan((other,), Store.at(tmp_path / "store"))
    assert built.artifact.manifest.config["protocol"] == "paper"
    assert Corpus(built.artifact).splits == {"train": 18, "id_val": 2, "ood_test": 4}


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("motif-size-concept", 'protocol = "mid"\n',
         "motif-size-concept has no option `protocol`. It has no options."),
        ("nci1-size", "environments = 0\n",
         "nci1-size: environments must be an integer in 1..1000 (found 0)"),
        ("nci1-size", 'environments = "color"\n',
         "nci1-size: environments must be an integer in 1..1000 (found color)"),
        ("nci1-size", "num_graphs = 5\n",
         "nci1-size: the raw files set the number of graphs. Remove num_graphs."),
    ],
)  # fmt: skip
def test_unsupported_options_are_rejected(tmp_path, name, more, message):
    write_zip(tmp_path / "nci1/NCI1.zip", tu_path_graphs(range(2, 42)))
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
def test_published_files_give_published_splits(raw_file, name, file, sizes, largest, words):
    path = raw_file(file)
    dataset = tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw={file: path}))
    assert list(dataset.split_sizes.values()) == sizes
    assert list(tu.metadata(name).counts.values()) == sizes
    test = dataset.build("ood_test", 0, sizes[4])
    assert test.num_nodes.max() == largest
    ones = {"nci1-size": 333, "dd-size": 24}[name]
    assert int(test.graph["label"].sum()) == ones
    assert len(dataset.info.column("node_feat").features[0].words) == words
    assert dataset.warnings == ()
    assert len(dataset.info.environments) == 5
    again = tu.open_tu(DatasetRequest(name=name, num_graphs=None, seed=0, raw={file: path}))
    held_out = [
        opened.build("id_val", 0, 9).graph["graph_id"].tolist() for opened in (dataset, again)
    ]
    assert held_out[0] == held_out[1]


def test_archives_are_not_extracted_to_disk(tmp_path):
    before = set(tmp_path.iterdir())
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("X_A.txt", "1")
    (tmp_path / "X.zip").write_bytes(data.getvalue())
    assert Archive(tmp_path / "X.zip", "X.zip").read("X_A.txt") == b"1"
    assert set(tmp_path.iterdir()) - before == {tmp_path / "X.zip"}
