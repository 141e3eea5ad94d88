"""Colored MNIST (``cmnist-color``): graphs of superpixels, tested on unseen colors.

Every digit becomes a graph of 75 superpixels (SLIC), each joined to its 16 nearest, which gives
about the number of edges of the published graphs. The features of a node are the color of its graph
times the mean intensity of its pixels. Training digits are divided at random into five environments
with one color each; ``ood_val`` and ``ood_test`` have one further color each.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, pointers
from gsx.schema import SPLITS, Column, CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.stages.array_blocks import Block
from gsx.stages.prepare.colors import COLORS, PALETTE, TRAINING_COLORS
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
)
from gsx.stages.prepare.readers.raw_files import read_raw_file
from gsx.stages.prepare.split_methods import OOD_TEST, OOD_VAL, TRAIN, hold_out, split_counts
from gsx.stages.prepare.splitting import assignment_columns
from gsx.table import GraphTable, concat

NAME = "cmnist-color"
IMAGES = 70_000
_SIDE = 28
"""Pixels on each side of an image."""
_BLOCK_IMAGES = 100
"""Images per task."""
_SOURCES = ("train", "t10k")
_RAW = tuple(
    RawFile(
        paths=(f"mnist/{source}-{kind}-ubyte.gz", f"mnist/{source}-{kind}-ubyte"),
        what="an MNIST file in IDX format (60,000 and 10,000 digits)",
    )
    for source in _SOURCES
    for kind in ("images-idx3", "labels-idx1")
)
_EXTRAS = (
    Column(name="pos", axis="node", dtype="float32", width=2,
           doc="column and row of the center, in pixels"),
    Column(name="color_id", axis="graph", dtype="int8", doc="color: " + ", ".join(COLORS)),
)  # fmt: skip


def split_sizes(num_graphs: int) -> tuple[int, int, int]:
    """Return the sizes of the training pool, ``ood_val`` and ``ood_test``."""
    pool, tenth = num_graphs * 8 // 10, num_graphs // 10
    return pool, tenth, num_graphs - pool - tenth


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of the dataset."""
    del name
    counts = dict(zip(SPLITS, (42_000, 7_000, 7_000, 7_000, 7_000), strict=False))
    return DatasetMetadata(shift="color", counts=counts, raw=_RAW)


def resolve_size(name: str, num_graphs: int | None) -> int:
    """Resolve the number of graphs; a smaller number is a random sample of the digits."""
    number = IMAGES if num_graphs is None else num_graphs
    if not 20 <= number <= IMAGES:
        raise UsageError(f"{name}: num_graphs must be in 20..{IMAGES} (found {number}).")
    return number


def open_cmnist(request: DatasetRequest) -> PreparedDataset:
    """Read the images and assign splits and colors; superpixels are computed per shard."""
    try:
        from gsx.stages.prepare.benchmarks.superpixels import superpixels_of_block
    except ImportError as error:
        raise UsageError(
            f"{request.name} needs scikit-image. Install it with `pip install 'gsx[images]'`."
        ) from error
    images, digit = read_images(request.raw)
    number = resolve_size(request.name, request.num_graphs)
    if len(images) < number:
        raise StageError(f"the MNIST files contain {len(images):,} digits; expected {number:,}.")
    rows = rng(request.seed, "prepare", request.name, "order").permutation(len(images))[:number]
    pool, val, test = split_sizes(number)
    split = np.repeat([TRAIN, OOD_VAL, OOD_TEST], [pool, val, test])
    env = np.full(number, -1)
    env[:pool] = np.minimum(np.arange(pool) // (pool // TRAINING_COLORS), TRAINING_COLORS - 1)
    color = np.where(split == TRAIN, env, np.where(split == OOD_VAL, 5, 6))
    split = hold_out(split, number // 10, rng(request.seed, "prepare", request.name, "id"))
    lock = threading.Lock()

    def build(name: str, start: int, stop: int) -> GraphTable:
        selected = np.flatnonzero(split == SPLITS.index(name))[start:stop]
        blocks = [
            selected[first : first + _BLOCK_IMAGES]
            for first in range(0, len(selected), _BLOCK_IMAGES)
        ]
        with lock:
            results = request.executor.map(
                superpixels_of_block, ({"images": images[rows[block]]} for block in blocks)
            )
            tables = [
                _table(result, color[block]) for result, block in zip(results, blocks, strict=True)
            ]
        label = digit[rows[selected]]
        columns = assignment_columns(
            rows[selected],
            split[selected],
            env[selected],
            color[selected],
            np.eye(10)[label],
            label,
        )
        extra = {"color_id": color[selected].astype(np.int8)}
        return concat(tables).with_columns(graph={**columns, **extra})

    return PreparedDataset(info=corpus_info(), split_sizes=split_counts(split), build=build)


def read_images(raw: Mapping[str, Path]) -> tuple[Array, Ints]:
    """Return all images ``[n, 28, 28]`` and digits ``[n]``."""
    arrays = {name: _read_idx(path, name) for name, path in raw.items()}
    images = [array for name, array in arrays.items() if "images" in name]
    digits = [array for name, array in arrays.items() if "labels" in name]
    for name, file_images, labels in zip(raw, images, digits, strict=False):
        if file_images.ndim != 3 or labels.ndim != 1 or len(file_images) != len(labels):
            raise StageError(
                f"{name} and its labels do not match: {file_images.shape} and {labels.shape}. "
                "Download both files again."
            )
        if file_images.shape[1:] != (_SIDE, _SIDE):
            raise StageError(
                f"{name} has images of {file_images.shape[1]} x {file_images.shape[2]} pixels; "
                f"expected {_SIDE} x {_SIDE}."
            )
    digit = np.concatenate(digits).astype(np.int64)
    if len(digit) and int(digit.max()) > 9:
        raise StageError(f"the MNIST files contain the label {int(digit.max())}; expected 0..9.")
    return np.concatenate(images), digit


def _read_idx(path: Path, name: str) -> Array:
    """Return the content of an IDX file as an array."""
    data = read_raw_file(path, name)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08" or not 1 <= data[3] <= 3:
        raise StageError(f"{name} is not an IDX file with 8-bit values.")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise StageError(f"{name} is not an IDX file: it ends after {len(data)} bytes.")
    shape = tuple(np.frombuffer(data[4:start], dtype=">u4").astype(int).tolist())
    if len(shape) != data[3] or len(data) - start != math.prod(shape):
        raise StageError(f"{name}: expected {shape} values (found {len(data) - start}).")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _table(block: Block, color: Ints) -> GraphTable:
    """Return the graphs of a block of images, without graph columns."""
    images, nodes = block["intensity"].shape
    feat = block["intensity"][:, :, None] * PALETTE[color][:, None]
    return GraphTable(
        node_ptr=pointers(np.full(images, nodes)),
        edge_ptr=pointers(block["num_edges"]),
        node={"node_feat": feat.reshape(-1, 3), "pos": block["center"].reshape(-1, 2)},
        edge={name: block[name] for name in ("edge_src", "edge_dst")},
    )


def corpus_info() -> CorpusInfo:
    """Describe the corpus."""
    return CorpusInfo(
        name=NAME,
        outputs=tuple(map(str, range(10))),
        domain="color",
        domains=COLORS,
        environments=tuple(
            Environment(id=id_, name=color) for id_, color in enumerate(COLORS[:TRAINING_COLORS])
        ),
        columns=corpus_columns(outputs=10, num_features=3, extras=_EXTRAS),
        num_features=3,
        description=(
            "Handwritten digits as graphs of 75 superpixels, each joined to its 16 nearest. A node "
            "has the color of its graph times its intensity; ood_val and ood_test have colors "
            "that do not occur in training."
        ),
        licence="public benchmark data (MNIST)",
        citation=(
            "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to "
            "document recognition. Proceedings of the IEEE 1998. Splits and colors follow S. Gui, "
            "X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. NeurIPS 2022."
        ),
    )


FAMILY = DatasetFamily(
    names=(NAME,),
    metadata=metadata,
    size=resolve_size,
    open=open_cmnist,
)
