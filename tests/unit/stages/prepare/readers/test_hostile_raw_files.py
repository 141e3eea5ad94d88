"""Raw files that claim more than they hold, or are no files: refused with a clear error."""

import gzip
import os
import struct
import time
import zipfile

import numpy as np
import pytest

from gsx.errors import GsxError, StageError, UsageError
from gsx.stages.prepare.benchmarks import citations, cmnist, dependency_text, twitch, webkb
from gsx.stages.prepare.dataset import RawFile
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.csv_tables import open_table, read_table
from gsx.stages.prepare.readers.npy import parse_npy
from gsx.stages.prepare.readers.raw_files import open_raw_file
from gsx.stages.prepare.user.dataset import user_files
from gsx.stages.prepare.user.options import resolve_user_options
from tests.support.raw_files import tu_path_graphs, write_alcohols_csv, write_folder, write_zip
from tests.support.user_data import open_user_file


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npy(header, values=b"", version=1):
    head = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(head)) + head + values


def header(shape, descr="'<i8'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize("columns", [100_000, 500_000])
def test_tables_with_too_many_columns_are_refused_within_a_second(tmp_path, columns):
    path = write(tmp_path, "a.csv", ",".join(f"c{n}" for n in range(columns)) + "\n")
    start = time.monotonic()
    with pytest.raises(StageError) as error:
        open_table(path, "a.csv")
    assert time.monotonic() - start < 1 + columns / 200_000
    assert str(error.value) == (
        f"a.csv: the header has {columns:,} columns; the limit is 16,384. Set GSX_LIMIT_COLUMNS to "
        "a larger number if you trust the file."
    )


def test_limits_can_be_raised(tmp_path, monkeypatch):
    wide = ",".join(f"c{n}" for n in range(20_000))
    path = write(tmp_path, "a.csv", f"{wide}\n{','.join('1' * 20_000)}\n")
    monkeypatch.setenv("GSX_LIMIT_COLUMNS", "20000")
    assert len(read_table(path, "a.csv").header) == 20_000
    for setting in ("many", "-1", "1" * 30, "²"):
        monkeypatch.setenv("GSX_LIMIT_COLUMNS", setting)
        with pytest.raises(UsageError, match=r"^GSX_LIMIT_COLUMNS must be an integer below 10"):
            read_table(path, "a.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("smiles,active\n" + "C" * 6_000_000, "a row, with the blank lines before it, has more "),
        ("smiles,active\n" + "C," * 3_000_000, "a row, with the blank lines before it, has more "),
        ("smiles,active\n" + "\n" * 6_000_000, "a row, with the blank lines before it, has more "),
        ('smiles,active\n"' + "C\n" * 100_000, "field larger than field limit (131072)"),
        ("smiles,active\nC,1\n".encode("utf-16"), "a.csv is UTF-16. Save the file as UTF-8."),
        ("smiles,active\nC,1\n".encode("utf-16-le"), "U+0000. The file may be UTF-16: save it as "),
        ("smiles,act\x1b[2Jive\nC,1\n", "a.csv: column 2 of the header, `act\\x1b[2Jive` contains"),
        ("smiles,act\u202eive\nC,1\n", "contains the control character U+202E. Remove it."),
        ("smiles,cafe\u0301\nC,1\n", "is not in Unicode normalization form C."),
        ("smiles," + "a" * 5000 + "\nC,1\n", "has 5,000 characters; the limit is 4,096. Shorten"),
        (b"smiles,active\nC\xe9,1\n", "a.csv, line 2: invalid UTF-8 byte 0xe9."),
    ],
)  # fmt: skip
def test_unusual_tables_are_refused(tmp_path, content, message):
    with pytest.raises(StageError) as error:
        open_table(write(tmp_path, "a.csv", content), "a.csv")
    assert message in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(header("(1000000000,)")), "declares int64 values of shape [1000000000], but the file "
         "has 0 bytes of values."),
        (npy(header("(1000000000000000,)")), "declares int64 values of shape [1000000000000000]"),
        (npy(header("(2,)"), bytes(8)), "declares int64 values of shape [2], but the file has 8 "),
        (npy(header("(2,)"), bytes(24)), "declares int64 values of shape [2], but the file has 24"),
        (npy(header("(-1,)")), "declares int64 values of shape [-1]"),
        (npy(header("(0, 99999999999999999999999)")), "a cannot be read: "),
        (npy(header("()", "'|O'"), bytes(8)), "it is pickled, and gsx never unpickles."),
        (npy(header("(1,)", "'<M8[ns]'"), bytes(8)), "it has the type datetime64[ns]."),
        (npy(header("(1,)", "'|V8'"), bytes(8)), "it has the type |V8."),
        (npy(header("(1,)", "[('a','<f8')]"), bytes(8)), "it has the type [('a', '<f8')]."),
        (npy("{'descr': '''"), "a cannot be read: "),
        (npy("(" * 500), "a cannot be read: "),
        (npy("-" * 5000 + "1"), "a cannot be read: "),
        (npy("1" * 5000), "a cannot be read: "),
        (npy(header("(1,)"), bytes(8), version=3), "unknown version 3.0 of the npy format"),
        (b"\x93NUMPY\x01\x00", "a cannot be read: "),
        (b"", "a cannot be read: "),
    ],
)  # fmt: skip
def test_npy_headers_are_checked_against_the_file(data, message):
    with pytest.raises(StageError) as error:
        parse_npy(data, "a")
    assert message in str(error.value)


def test_npy_arrays_are_read_like_numpy_does(tmp_path):
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)),
                  np.zeros((0, 3)), np.array(5), np.array(["a", "bc"]), np.array([True, False]),
                  np.arange(3, dtype=">i4")):  # fmt: skip
        np.save(tmp_path / "a.npy", array)
        read = parse_npy((tmp_path / "a.npy").read_bytes(), "a")
        assert np.array_equal(read, array)
        assert read.dtype == array.dtype


def test_bytes_of_booleans_become_zero_or_one():
    read = parse_npy(npy(header("(3,)", "'|b1'"), b"\x00\x01\x02"), "a")
    assert read.view(np.uint8).tolist() == [0, 1, 1]


def write_ogb(folder, **files):
    defaults = {"edge": "0,1\n", "num-node-list": "2\n2\n", "num-edge-list": "1\n0\n",
                "graph-label": "1\n0\n"}  # fmt: skip
    names = {name.replace("_", "-"): text for name, text in files.items()}
    for name, text in {**defaults, **names}.items():
        write(folder, f"raw/{name}.csv", text)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"num_node_list": "1000000000\n2\n"}, "declares 1,000,000,002 nodes without features and "
         "1 edges; the limit is 5,000,000 nodes. Add node features. Set GSX_LIMIT_NODES"),
        ({"num_node_list": "1000000000\n2\n", "node_feat": "1\n"},
         "node-feat has 1 lines, but there are 1,000,000,002 nodes."),
        ({"num_edge_list": "1000000000\n1000000000\n"},
         "edge has 1 lines, but num-edge-list adds up to 2,000,000,000."),
        ({"num_node_list": "9223372036854775807\n2\n"}, "num-node-list must contain counts"),
        ({"num_node_list": "9223372036854775808\n2\n"}, "must contain one integer per line."),
        ({"graph_label": "9007199254740993\n9007199254740992\n"}, "neither 0 nor 1"),
        ({"graph_label": "1" + ",1" * 20_000 + "\n"}, "has 20,001 numbers per line; the limit"),
    ],
)  # fmt: skip
def test_ogb_counts_are_checked_against_the_files(tmp_path, files, message):
    with pytest.raises(StageError) as error:
        open_user_file(write_ogb(tmp_path, **files), "ogb", task="binary")
    assert message in str(error.value).replace("`", "") or "expected 0, 1" in str(error.value)


def test_ogb_labels_without_an_array_are_refused(tmp_path):
    write_ogb(tmp_path)
    np.savez(tmp_path / "raw" / "graph-label.npz", other=np.zeros(2))
    with pytest.raises(StageError, match=r"raw/graph-label.npz has no array `graph_label`"):
        open_user_file(tmp_path, "ogb")


TU = tu_path_graphs(list(range(2, 32)))
NODES = sum(range(2, 32))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"graph_indicator": "1\n9223372036854775807\n"}, "graph_labels.txt has 30 lines, but "),
        ({"graph_indicator": "1\n-9223372036854775808\n"}, "graph_indicator.txt, line 2: graph -9"),
        ({"A": "-9223372036854775808,1\n"}, "A.txt, line 1: edge between nodes [-922337203685"),
        ({"node_labels": "".join(f"{n}\n" for n in range(NODES)),
          "node_attributes": "1\n" * NODES}, "whose one-hot codes have "),
        ({"graph_labels": "9007199254740993\n9007199254740992\n9007199254740994\n" * 10},
         "label is about 9007199254740992; class labels are below 2^53"),
    ],
)  # fmt: skip
def test_tu_ids_are_checked_before_anything_is_built(tmp_path, monkeypatch, files, message):
    monkeypatch.setenv("GSX_LIMIT_EXPANDED_BYTES", "100000")
    content = {**TU, **{f"P/P_{kind}.txt": text for kind, text in files.items()}}
    with pytest.raises(StageError) as error:
        open_user_file(write_zip(tmp_path / "P.zip", content), "tu")
    assert message in str(error.value)


def test_two_large_classes_of_tu_files_stay_distinct(tmp_path):
    labels = "".join(f"{9007199254740992 + number % 2}\n" for number in range(30))
    path = write_zip(tmp_path / "P.zip", {**TU, "P/P_graph_labels.txt": labels})
    dataset = open_user_file(path, "tu")
    assert dataset.info.outputs == ("label_9007199254740993",)
    train = dataset.build("train", 0, dataset.split_sizes["train"]).graph
    assert (train["label"] == train["graph_id"] % 2).all()


def test_large_classes_of_tables_are_refused(tmp_path):
    rows = "".join(f"{'C' * (n + 1)}O,{9007199254740992 + n % 2}\n" for n in range(40))
    path = write(tmp_path, "a.csv", f"smiles,active\n{rows}")
    with pytest.raises(StageError, match=r"row 0: active is about 9007199254740992; class labels"):
        open_user_file(path, task="classification")
    path = write(tmp_path, "a.csv", "smiles,active\nC,1e39\nCC,2\n")
    with pytest.raises(StageError, match=r"row 0: active is 1e\+39, but targets are 32-bit"):
        open_user_file(path, task="regression")


def test_label_values_are_limited(tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_LABEL_VALUES", "50")
    labels = "".join(f"{number % 3}\n" for number in range(30))
    path = write_zip(tmp_path / "P.zip", {**TU, "P/P_graph_labels.txt": labels})
    with pytest.raises(StageError, match=r"30 rows and 3 classes of `label` give more than 50 "):
        open_user_file(path, "tu")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("name", ["smiles", "pyg", "tu", "edges", "ogb", "good"])
def test_other_kinds_of_files_are_refused_without_opening_them(tmp_path, kind, name):
    def plant(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        return path

    options = {}
    if name == "smiles":
        options = {"file": plant(tmp_path / "a.csv"), "targets": ("active",)}
    elif name == "pyg":
        options = {"file": plant(tmp_path / "a.pt")}
    elif name == "tu":
        options = {"file": plant(tmp_path / "T" / "P_A.txt").parent}
    elif name == "edges":
        edges = plant(tmp_path / "e.csv")
        options = {"file": write_alcohols_csv(tmp_path), "edges": edges, "targets": ("active",)}
    elif name == "ogb":
        options = {"file": write_ogb(tmp_path)}
        plant(tmp_path / "raw" / "node-feat.csv.gz")
    else:
        options = {"file": plant(tmp_path / "covariate.pt").parent}
    family = "nodes" if name == "edges" else name
    resolved = resolve_user_options(family, {k: v if k == "targets" else str(v)
                                             for k, v in options.items()})  # fmt: skip
    what = {"pipe": "a named pipe", "device": "a device", "folder": "a folder"}[kind]
    with pytest.raises(UsageError, match=f"is {what}, not a file"):
        user_files(family, resolved)


def test_unusual_paths_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StageError, match=r"^x is a named pipe, not a file. Pass a regular file.$"):
        open_raw_file(tmp_path / "pipe", "x")
    with pytest.raises(UsageError, match="is a named pipe, not a file"):
        RawFile(paths=("pipe",), what="a file").find(tmp_path)
    for path in ("a" * 5000, "a\0b"):
        with pytest.raises(UsageError, match=r"cannot be read: |characters; the limit"):
            user_files("pyg", resolve_user_options("pyg", {"file": path, "name": "n"}))


def test_archives_with_unusual_members_are_refused(tmp_path):
    for name in ("", "/etc/passwd", "a/../../b", "C:/x", "a\\b"):
        path = write_zip(tmp_path / "a.zip", {name: "x"})
        with pytest.raises(StageError, match="points outside the archive"):
            Archive(path, "a.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.txt", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a/b.txt", "2")
    with pytest.raises(StageError, match=r"the path `a/b.txt` occurs more than once"):
        Archive(path, "a.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.txt", "1")
        archive.writestr("a/./b.txt", "2")
    with pytest.raises(StageError, match=r"the path `a/b.txt` occurs more than once"):
        Archive(path, "a.zip")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"y":1,"token":["a"],"head":[0],"z":' + b"[" * 100_000, "maximum recursion depth"),
        (b'{"y":1,"token":["a"],"head":[99999999999999999999999]}', "the head of token 1 is 9999"),
        (b'{"y":1,"token":["\\ud800"],"head":[0]}', "JSON is malformed"),
        (b'{"y":1' + b"1" * 5000 + b',"token":["a"],"head":[0]}', "out of range"),
    ],
)  # fmt: skip
def test_unusual_json_is_refused(tmp_path, line, message):
    path = write(tmp_path, "t.jsonl", line)
    with pytest.raises(StageError, match=message):
        dependency_text.read_texts({"t.jsonl": path}, (0, 1))


def test_benchmark_files_are_checked(tmp_path, monkeypatch):
    target = write(tmp_path, "t.csv", "id,new_id,mature\n0,0,True\n")
    edges = write(tmp_path, "e.csv", "from,to\n0,0\n")
    for text in ('{"0":[18446744073709551616]}', '{"99999999999999999999":[1]}', '{"0":[-1]}'):
        words = write(tmp_path, "f.json", text)
        with pytest.raises(StageError, match=r"^f.json"):
            twitch.read_network([("t.csv", target), ("f.json", words), ("e.csv", edges)])
    pages = write(tmp_path, "n.txt", "node_id\tfeature\tlabel\n0\t1,0\t9\n")
    links = write(tmp_path, "l.txt", "node_id\tnode_id\n0\t0\n")
    with pytest.raises(StageError, match=r"^n.txt, row 0: label is 9; expected 0..4.$"):
        webkb.read_pages(("n.txt", pages), ("l.txt", links))
    for data in (b"\x00\x00\x08\x03\x00\x00", b"\x00\x00\x08\x03" + b"\xff" * 12):
        with pytest.raises(StageError, match=r"IDX file|expected \("):
            cmnist.read_images({"train-images": write(tmp_path, "i", data)})
    monkeypatch.setenv("GSX_LIMIT_UNPACKED_BYTES", "1000")
    bomb = write(tmp_path, "i.gz", gzip.compress(bytes(1_000_000)))
    with pytest.raises(StageError, match="unpacks to more than"):
        cmnist.read_images({"train-images.gz": bomb})
    with pytest.raises(StageError, match="unpacks to more than"):
        dependency_text.read_texts({"t.jsonl.gz": bomb}, (0, 1))


def test_declared_vocabularies_are_limited(tmp_path):
    arrays = {
        "attr_indptr": np.array([0, 1]), "attr_indices": np.array([0]),
        "attr_shape": np.array([1, 1 << 60]), "adj_indptr": np.array([0, 0]),
        "adj_indices": np.zeros(0, dtype=np.int64), "labels": np.array([0]),
    }  # fmt: skip
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(StageError, match=r"attr_shape declares 1,152,921,504,606,846,976 words"):
        citations.read_word_graph(tmp_path / "a.npz", "a.npz")


def test_one_long_cell_does_not_multiply_memory(tmp_path):
    rows = "".join(f"n{n},{n % 2},{'0' * (100_000 if n == 5 else 1)}1\n" for n in range(3000))
    nodes = write(tmp_path, "n.csv", f"id,y,f\n{rows}")
    edges = write(tmp_path, "e.csv", "s,t\n" + "".join(f"n0,n{n}\n" for n in range(3000)))
    with pytest.raises(GsxError):  # one environment
        open_user_file(nodes, "nodes", edges=str(edges), targets=("y",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a\x1b[2J"}, r"^the name `a\\x1b\[2J` contains the control character U\+001B"),
        ({"name": "a" * 5000}, r"^the name .* has 5,000 characters; the limit is 4,096"),
        ({"domain": "column:a\u2028"}, r"^the domain .* contains the control character U\+2028"),
        ({"targets": ("a\0",)}, r"^the column `a\\x00` contains the control character U\+0000"),
        ({"max_atoms": 0}, r"^max_atoms must be in 1..1000000 \(found 0\)"),
        ({"max_atoms": 10**30}, r"^max_atoms must be in 1..1000000"),
    ],
)
def test_unusual_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve_user_options("smiles", {"file": "a.csv", "targets": ("y",), **options})


def test_domains_that_cannot_be_names_are_refused(tmp_path):
    rows = "".join(f"{'C' * (n + 1)}O,{n % 2},site{n % 3}\n" for n in range(40))
    path = write(tmp_path, "a.csv", f"smiles,active,site\n{rows}CC,1,a\u202eb\n")
    with pytest.raises(StageError, match=r"^a.csv, row 40: site `a\\u202eb` contains the control"):
        open_user_file(path, domain="column:site")


def test_empty_files_of_a_folder_are_named(tmp_path):
    folder = write_folder(tmp_path / "T", {"P_A.txt": "", "P_graph_indicator.txt": ""})
    with pytest.raises(StageError, match=r"graph_indicator.txt is empty"):
        open_user_file(folder, "tu")


def test_a_compressed_table_has_at_most_one_row_per_byte(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"smiles,y\n" + b"C,1\n" * 100_001))
    with pytest.raises(StageError) as error:
        read_table(path, path.name)
    assert str(error.value) == (
        "a.csv.gz has more than 100,000 rows, the limit for a compressed file of its size. Unpack "
        "it yourself if you trust it. Set GSX_LIMIT_ROWS to a larger number if you trust the file."
    )
    monkeypatch.setenv("GSX_LIMIT_ROWS", "100001")
    assert read_table(path, path.name).count == 100_001
    plain = write(tmp_path, "a.csv", "smiles,y\n" + "C,1\n" * 100_001)
    monkeypatch.delenv("GSX_LIMIT_ROWS")
    assert read_table(plain, "a.csv").count == 100_001
