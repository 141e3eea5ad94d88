"""Digits as graphs of superpixels."""

import gzip
import struct

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.seeds import rng
from gsx.stages.prepare.benchmarks import cmnist as images
from gsx.stages.prepare.colors import PALETTE
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.validation import validate_table


def skimage():
    return pytest.importorskip("skimage", reason="scikit-image is not installed")


def idx(array):
    head = b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def written(folder, count=60, **change):
    """Write squares of several sizes and places as if they were digits."""
    generator = rng(0, "tests", "images")
    (folder / "mnist").mkdir(parents=True, exist_ok=True)
    for part, number in (("train", count), ("t10k", count // 3)):
        pictures = np.zeros((number, 28, 28))
        for picture in pictures:
            top, left, size = generator.integers(4, 12, 3)
            picture[top : top + size, left : left + size] = generator.integers(100, 256)
        files = {"images-idx3": idx(pictures), "labels-idx1": idx(np.arange(number) % 10)}
        for kind, data in {**files, **change}.items():
            name = f"{part}-{kind}-ubyte.gz"
            (folder / "mnist" / name).write_bytes(gzip.compress(data, mtime=0))
    return folder


def source_of(folder, num_graphs=80, seed=0):
    raw = {each.paths[0]: folder / each.paths[0] for each in images.metadata("cmnist-color").raw}
    order = DatasetRequest(name="cmnist-color", num_graphs=num_graphs, seed=seed, raw=raw)
    return images.open_cmnist(order)


def test_splits_have_colors_of_their_own(tmp_path):
    skimage()
    source = source_of(written(tmp_path))
    assert list(source.split_sizes.values()) == [48, 8, 8, 8, 8]
    shown = {}
    for split, size in source.split_sizes.items():
        table = validate_table(source.build(split, 0, size), source.info)
        shown[split] = set(table.graph["color_id"].tolist())
        assert (table.num_nodes == 75).all()
        inside = table.graph["color_id"] < 5
        np.testing.assert_array_equal(table.graph["env_id"] >= 0, inside)
        color = PALETTE[np.repeat(table.graph["color_id"], 75)]
        assert (table.node["node_feat"][color == 0] == 0).all()
        assert table.node["node_feat"].max() <= 1
    assert shown["train"] == {0, 1, 2, 3, 4}
    assert (shown["ood_val"], shown["ood_test"]) == ({5}, {6})


def test_graphs_do_not_depend_on_workers_or_on_how_a_split_is_cut(tmp_path, monkeypatch):
    skimage()
    monkeypatch.setattr(images, "_BLOCK", 10)
    tables = []
    for workers in ("1", "2"):
        monkeypatch.setenv("GSX_WORKERS", workers)
        tables.append(source_of(written(tmp_path)).build("train", 0, 48))
    assert tables[0].equals(tables[1])
    assert source_of(tmp_path).build("train", 13, 20).equals(tables[0].slice(13, 20))
    other = source_of(tmp_path, seed=1).build("train", 0, 48)
    assert other.graph["graph_id"].tolist() != tables[0].graph["graph_id"].tolist()


def test_superpixels_cover_the_image():
    skimage()
    from gsx.stages.prepare.benchmarks.superpixels import superpixels

    image = np.zeros((28, 28))
    image[5:20, 8:14] = 1
    intensity, center = superpixels(image)
    assert intensity.shape == (75,)
    assert 0 <= intensity.min() <= intensity.max() <= 1
    bright = center[intensity > 0.9]
    assert len(bright) > 3
    assert (bright.min(axis=0) >= [8, 5]).all()
    assert (bright.max(axis=0) <= [13, 19]).all()
    for plain in (np.zeros((28, 28)), np.ones((28, 28))):
        assert len(superpixels(plain)[0]) == 75


def test_every_superpixel_is_joined_to_its_nearest_both_ways():
    skimage()
    from gsx.stages.prepare.benchmarks.superpixels import nearest_edges

    center = np.array([[[0, 0], [1, 0], [3, 0], [7, 0]]], dtype=np.float32)
    counts, src, dst = nearest_edges(center, neighbors=1)
    assert counts.tolist() == [6]
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    assert pairs == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images-idx3": b"junk"},
         "mnist/train-images-idx3-ubyte.gz is no IDX file of bytes."),
        ({"images-idx3": idx(np.zeros((2, 28, 28)))[:-1]},
         "mnist/train-images-idx3-ubyte.gz should hold (2, 28, 28) values; it holds 1567."),
        ({"labels-idx1": idx(np.zeros(3))}, "mnist/train-images-idx3-ubyte.gz and the labels "
         "beside it do not belong together: (60, 28, 28) and (3,)."),
        ({"labels-idx1": idx(np.full(60, 10))}, None),
    ],
)  # fmt: skip
def test_files_that_are_not_mnist_are_refused(tmp_path, change, message):
    skimage()
    folder = written(tmp_path, **change)
    if message is None:
        data = gzip.compress(idx(np.full(20, 10)), mtime=0)
        (folder / "mnist/t10k-labels-idx1-ubyte.gz").write_bytes(data)
        message = "the files of MNIST hold the label 10; expected 0..9."
    with pytest.raises(StageError) as error:
        source_of(folder)
    assert str(error.value) == message


def test_more_digits_than_there_are_cannot_be_drawn(tmp_path):
    skimage()
    with pytest.raises(StageError) as error:
        source_of(written(tmp_path), num_graphs=100)
    assert str(error.value) == "the files of MNIST hold 80 digits; 100 are needed."


def test_a_number_of_graphs_that_cannot_be_is_refused(tmp_path):
    text = '[prepare]\ndataset = "cmnist-color"\nnum_graphs = 5\n'
    with pytest.raises(UsageError) as error:
        make_plan(parse_recipe(text, "t.toml", raw=str(written(tmp_path))))
    assert str(error.value) == "cmnist-color: num_graphs must lie in 20..70000; got 5"


def test_an_image_library_that_is_not_installed_is_asked_for(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "gsx.stages.prepare.benchmarks.superpixels", None)
    with pytest.raises(UsageError) as error:
        source_of(written(tmp_path))
    assert str(error.value) == (
        "cmnist-color needs scikit-image. Install it: `pip install 'gsx[images]'`."
    )


def test_the_published_digits_are_split_as_published(raw_file):
    skimage()
    raw = {each.paths[0]: raw_file(each.paths[0]) for each in images.metadata("cmnist-color").raw}
    source = images.open_cmnist(DatasetRequest(name="cmnist-color", num_graphs=None, seed=0, raw=raw))
    assert list(source.split_sizes.values()) == [42000, 7000, 7000, 7000, 7000]
    assert dict(images.metadata("cmnist-color").counts) == source.split_sizes
    table = validate_table(source.build("ood_test", 0, 20), source.info)
    assert 1300 < table.num_edges.mean() < 1450
