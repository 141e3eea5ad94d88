"""Colored MNIST: superpixels, colors, splits and error messages."""

import gzip

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.stages.prepare.benchmarks import cmnist
from gsx.stages.prepare.colors import PALETTE
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.validation import validate_table
from tests.support.raw_files import idx_bytes, write_mnist


def skimage():
    return pytest.importorskip("skimage", reason="scikit-image is not installed")


def open_dataset(folder, num_graphs=80, seed=0):
    raw = {file.paths[0]: folder / file.paths[0] for file in cmnist.metadata("cmnist-color").raw}
    request = DatasetRequest(name="cmnist-color", num_graphs=num_graphs, seed=seed, raw=raw)
    return cmnist.open_cmnist(request)


def test_ood_splits_have_unseen_colors(tmp_path):
    skimage()
    dataset = open_dataset(write_mnist(tmp_path))
    assert list(dataset.split_sizes.values()) == [48, 8, 8, 8, 8]
    colors = {}
    for split, size in dataset.split_sizes.items():
        table = validate_table(dataset.build(split, 0, size), dataset.info)
        colors[split] = set(table.graph["color_id"].tolist())
        assert (table.num_nodes == 75).all()
        inside = table.graph["color_id"] < 5
        np.testing.assert_array_equal(table.graph["env_id"] >= 0, inside)
        color = PALETTE[np.repeat(table.graph["color_id"], 75)]
        assert (table.node["node_feat"][color == 0] == 0).all()
        assert table.node["node_feat"].max() <= 1
    assert colors["train"] == {0, 1, 2, 3, 4}
    assert (colors["ood_val"], colors["ood_test"]) == ({5}, {6})


def test_graphs_do_not_depend_on_workers_or_shard_boundaries(tmp_path, monkeypatch):
    skimage()
    monkeypatch.setattr(cmnist, "_BLOCK_IMAGES", 10)
    tables = []
    for workers in ("1", "2"):
        monkeypatch.setenv("GSX_WORKERS", workers)
        tables.append(open_dataset(write_mnist(tmp_path)).build("train", 0, 48))
    assert tables[0].equals(tables[1])
    assert open_dataset(tmp_path).build("train", 13, 20).equals(tables[0].slice(13, 20))
    other = open_dataset(tmp_path, seed=1).build("train", 0, 48)
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


def test_nearest_superpixels_are_joined_in_both_directions():
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
         "mnist/train-images-idx3-ubyte.gz is not an IDX file with 8-bit values."),
        ({"images-idx3": idx_bytes(np.zeros((2, 28, 28)))[:-1]},
         "mnist/train-images-idx3-ubyte.gz: expected (2, 28, 28) values (found 1567)."),
        ({"labels-idx1": idx_bytes(np.zeros(3))}, "mnist/train-images-idx3-ubyte.gz and its labels "
         "do not match: (60, 28, 28) and (3,). Download both files again."),
        ({"labels-idx1": idx_bytes(np.full(60, 10))}, None),
    ],
)  # fmt: skip
def test_invalid_mnist_files_are_rejected(tmp_path, change, message):
    skimage()
    folder = write_mnist(tmp_path, **change)
    if message is None:
        data = gzip.compress(idx_bytes(np.full(20, 10)), mtime=0)
        (folder / "mnist/t10k-labels-idx1-ubyte.gz").write_bytes(data)
        message = "the MNIST files contain the label 10; expected 0..9."
    with pytest.raises(StageError) as error:
        open_dataset(folder)
    assert str(error.value) == message


def test_num_graphs_above_the_number_of_digits_is_rejected(tmp_path):
    skimage()
    with pytest.raises(StageError) as error:
        open_dataset(write_mnist(tmp_path), num_graphs=100)
    assert str(error.value) == "the MNIST files contain 80 digits; expected 100."


def test_num_graphs_out_of_range_is_rejected(tmp_path):
    text = '[prepare]\ndataset = "cmnist-color"\nnum_graphs = 5\n'
    with pytest.raises(UsageError) as error:
        make_plan(parse_recipe(text, "t.toml", raw=str(write_mnist(tmp_path))))
    assert str(error.value) == "cmnist-color: num_graphs must be in 20..70000 (found 5)."


def test_missing_scikit_image_is_reported(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "gsx.stages.prepare.benchmarks.superpixels", None)
    with pytest.raises(UsageError) as error:
        open_dataset(write_mnist(tmp_path))
    assert str(error.value) == (
        "cmnist-color needs scikit-image. Install it with `pip install 'gsx[images]'`."
    )


def test_published_files_give_published_splits(raw_file):
    skimage()
    raw = {file.paths[0]: raw_file(file.paths[0]) for file in cmnist.metadata("cmnist-color").raw}
    dataset = cmnist.open_cmnist(
        DatasetRequest(name="cmnist-color", num_graphs=None, seed=0, raw=raw)
    )
    assert list(dataset.split_sizes.values()) == [42000, 7000, 7000, 7000, 7000]
    assert dict(cmnist.metadata("cmnist-color").counts) == dataset.split_sizes
    table = validate_table(dataset.build("ood_test", 0, 20), dataset.info)
    assert 1300 < table.num_edges.mean() < 1450
