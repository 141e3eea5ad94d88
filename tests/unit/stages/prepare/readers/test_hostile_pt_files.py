"""Pickles in .pt files that claim, repeat or leave out bytes: refused, and never uninitialised."""

import io
import struct
import zipfile

import numpy as np
import pytest
import torch

from gsx.errors import StageError
from gsx.stages.prepare.readers import pt_files, tensor_pickle
from gsx.stages.prepare.readers.pt_files import PtFile, read_pt_graphs
from tests.support.user_data import open_user_file

EDGES = struct.pack("<4q", 0, 1, 1, 0)


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    return b"\x8a\x14" + value.to_bytes(20, "little", signed=True)


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(count, shape, strides, offset=0, kind=b"Float", key="0"):
    """Return the instructions that torch.save writes for a tensor."""
    storage = b"(" + text("storage") + b"ctorch\n" + kind + b"Storage\n" + text(key) + text("cpu")
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(count) + b"tQ" + number(offset)
        + numbers(shape) + numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip


def graph(**fields):
    """Return a pickle of a list with one graph of two nodes and the given instructions."""
    edges = tensor(4, (2, 2), (2, 1), kind=b"Long", key="1")
    items = {"edge_index": edges, "y": b"K\x01", **fields}
    pairs = b"".join(text(name) + value for name, value in items.items())
    return b"\x80\x02](}(" + pairs + b"ue."


def write_pt(folder, pickle, **members):
    data = {"data/0": bytes(16), "data/1": EDGES, **members}
    with zipfile.ZipFile(folder / "mine.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle)
        for name, content in data.items():
            archive.writestr(f"a/{name}", content)
    return folder / "mine.pt"


def numpy_array(shape, code="f8", state=None):
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text("b") + b"tR"
    dtype = b"cnumpy\ndtype\n(" + text(code) + b"\x89\x88tR(K\x03" + text("<") + b"NNNJ" + (
        struct.pack("<i", -1) + b"J" + struct.pack("<i", -1) + b"K\x00tb"
    )  # fmt: skip
    if state is None:
        return array
    data = b"c_codecs\nencode\n(" + text(state) + text("latin1") + b"tR"
    return array + b"(K\x01" + numbers(shape) + dtype + b"\x89" + data + b"tb"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tensor(1 << 30, (1 << 30,), (1,)),
         "mine.pt cannot be read: the storage 0 declares 4,294,967,296 bytes, but has 16."),
        (tensor(3, (3,), (1,)),
         "mine.pt cannot be read: the storage 0 declares 12 bytes, but has 16."),
        (tensor(4, (10,), (1,)),
         "mine.pt: `x` needs 40 bytes, but its storage has 16. Save the file again."),
        (tensor(4, (2,), (1,), offset=1 << 62),
         "mine.pt: `x` needs 18,446,744,073,709,551,624 bytes, but its storage has 16. Save the "
         "file again."),
        (tensor(4, (4,), (-1,)), "mine.pt cannot be read: damaged tensor."),
        (tensor(4, (2,), (1,), offset=-1), "mine.pt cannot be read: damaged tensor."),
        (tensor(4, (-1,), (1,)), "mine.pt cannot be read: damaged tensor."),
        (tensor(4, (2, 2), (1,)), "mine.pt cannot be read: damaged tensor."),
        (tensor(4, (4, 1 << 26), (1, 0)),
         "mine.pt: `x` contains tensors that expand to more than 134,217,728 bytes. Set "
         "GSX_LIMIT_EXPANDED_BYTES to a larger number if you trust the file."),
        (tensor(4, (1 << 40, 0), (1, 1)),
         "mine.pt: `x` has the shape [1099511627776, 0]."),
        (tensor(4, (2, 2), (2, 1), key="7"),
         "mine.pt cannot be read: it has no member a/data/7."),
        (tensor(4, (2, 2), (2, 1), key="../data.pkl"),
         "mine.pt cannot be read: it has no member a/data/../data.pkl."),
        (numpy_array((1000,)), "mine.pt cannot be read: `x` has no values."),
        (numpy_array((1000,), state="12345678"),
         "mine.pt cannot be read: an array of shape [1000] has 8 bytes instead of 8,000."),
        (numpy_array((1,), "O", state="12345678"),
         "mine.pt cannot be read: unsupported array type 'O'."),
        (numpy_array((1,), "V8", state="12345678"),
         "mine.pt cannot be read: unsupported array type 'V8'."),
        (numpy_array((1,), "M8", state="12345678"),
         "mine.pt cannot be read: unsupported array type 'M8'."),
        (b"cnumpy\nndarray\nM\xe8\x03\x85\x85R",
         "mine.pt cannot be read: unsupported call of numpy.ndarray."),
        (b"ctorch\nTensor\nM\xe8\x03\x85R",
         "mine.pt cannot be read: unsupported call of torch.Tensor."),
        (b"ctorch\nFloatStorage\nM\xe8\x03\x85R",
         "mine.pt cannot be read: unsupported call of torch.FloatStorage."),
        (b"ctorch\nFloatTensor\nM\xe8\x03\x85R", "mine.pt contains pickled objects (torch.Float"),
        (b"cos\nsystem\n" + text("true") + b"\x85R",
         "mine.pt contains pickled objects (os.system). gsx "),
        (b"ctorch.storage\n_load_from_bytes\n" + text("") + b"\x85R",
         "mine.pt contains pickled objects (torch.storage._load_from_bytes). gsx "),
    ],
)  # fmt: skip
def test_values_must_be_bytes_of_the_file(tmp_path, value, message):
    with pytest.raises(StageError) as error:
        open_user_file(write_pt(tmp_path, graph(x=value)), "pyg")
    assert str(error.value).startswith(message)


def test_handwritten_tensor_and_array_are_read(tmp_path):
    values = np.array([1.0, 2.0, 3.0, 4.0], dtype="<f4")
    path = write_pt(tmp_path, graph(x=tensor(4, (2, 2), (1, 2))), **{"data/0": values.tobytes()})
    assert read_pt_graphs(path, "mine.pt").values["x"][1].tolist() == [[1, 3], [2, 4]]
    path = write_pt(tmp_path, graph(x=numpy_array((2, 1), "i1", state="\x01\xff")))
    assert read_pt_graphs(path, "mine.pt").values["x"][1].tolist() == [[1], [-1]]


@pytest.mark.parametrize(
    ("pickle", "message"),
    [
        (b"\x80\x02" + b"]" * 100_000 + b".", "more than 25,000 lists, tuples and dicts."),
        (b"\x80\x02N" + b"\x85" * 100_000 + b".", "more than 25,001 lists, tuples and dicts"),
        (b"\x80\x02(" + b"(" * 100_000 + b".", "more than 25,001 lists, tuples and dicts"),
        (b"\x80\x02]q\x00(}q\x01" + text("y") + b"K\x01s" + b"h\x01" * 2001 + b"e.",
         "mine.pt lists 2,002 graphs; the limit is 1,000."),
        (b"\x80\x02}(" + b"".join(text(f"f{n}") + b"K\x01" for n in range(2000)) + b"u.",
         "mine.pt: graphs have 2,000 fields; the limit is 1,000."),
        (b"\x80\x02}" + text("a\x1bb") + b"K\x01s.", "contains the control character U+001B."),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "cannot be read: the content ends early."),
        (b"\x80\x02X\x02\x00\x00\x00\xed\xa0.", "cannot be read: damaged content (UnicodeDecode"),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.", "cannot be read: pickle protocol 4; "),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "expected a graph, a list of graphs"),
        (b"\x80\x02j\x00\x00\x00\x00.", "cannot be read: damaged content (KeyError)."),
        (b"\x80\x02].a", "mine.pt contains no graphs."),
        (b"\x80\x02}]K\x01s.", "cannot be read: damaged key of a dict."),
        (b"\x80\x02" + b"]" + b"0" + b".", "cannot be read: unsupported instruction 48."),
        (b"", "cannot be read: damaged content (IndexError)."),
        (b"\x80\x02", "cannot be read: damaged content (IndexError)."),
    ],
)  # fmt: skip
def test_damaged_pickles_are_rejected(tmp_path, monkeypatch, pickle, message):
    monkeypatch.setattr(tensor_pickle, "_FEW_CONTAINERS", 1000)
    monkeypatch.setattr(pt_files, "_MANY_GRAPHS", 1000)
    path = write_pt(tmp_path, pickle)
    with pytest.raises(StageError) as error:
        read_pt_graphs(path, "mine.pt")
    assert message in str(error.value)


def test_views_of_torch_are_read_like_torch_does(tmp_path):
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    views = {
        "transposed": base.t(), "sliced": base[1:3, ::2], "scalar": base[2, 3],
        "expanded": base[:, :1].expand(4, 3), "half": base.half(), "bfloat": base.bfloat16() / 3,
        "bool": base > 5, "int8": base.to(torch.int8), "empty": base[:0], "uint16":
        base.to(torch.uint16), "parameter": torch.nn.Parameter(base), "double": base.double(),
    }  # fmt: skip
    torch.save(views, tmp_path / "views.pt")
    file = PtFile(tmp_path / "views.pt", "views.pt")
    for name, view in views.items():
        expected = view.detach()
        expected = expected.float() if name in ("half", "bfloat") else expected
        array = file.array(file.content[name], name)
        assert array.dtype == expected.numpy().dtype, name
        assert np.array_equal(array, expected.numpy().reshape(array.shape)), name


def test_numbers_beyond_64_bits_are_not_read(tmp_path):
    buffer = io.BytesIO()
    torch.save([{"a": 1 << 70, "b": [1.0, 1 << 2000], "c": [1, 2]}], buffer)
    (tmp_path / "mine.pt").write_bytes(buffer.getvalue())
    fields = read_pt_graphs(tmp_path / "mine.pt", "mine.pt")
    assert (list(fields.values), fields.unread) == (["c"], ("a", "b"))


def test_members_that_occur_twice_are_rejected(tmp_path):
    path = write_pt(tmp_path, graph())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a/data/1", bytes(32))
    with pytest.raises(StageError, match=r"the path `a/data/1` occurs more than once"):
        read_pt_graphs(path, "mine.pt")
