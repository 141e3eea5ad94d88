import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save

from gsx.errors import ArtifactError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora import summary
from gsx.storage.corpora.artifact_files import array, decode_json, read_arrays, read_json
from gsx.storage.corpora.summary import ModelQuality


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"metric": 5}', b"[]", b"\xff", b"[" * 100_000, b'{"metric": NaN}',
     b'{"metric": "accuracy", "selection": {"last": {"epoch": 1e999}}}',
     b'{"metric": "accuracy", "selection": {"last": {"epoch": ' + b"9" * 5000 + b"}}}"],
)  # fmt: skip
def test_json_of_another_shape_is_refused(data):
    with pytest.raises(ArtifactError, match=r"^here cannot be read: "):
        decode_json(data, ModelQuality, "here")


def test_a_missing_or_large_file_is_refused(tmp_path):
    location = Location.at(tmp_path)
    with pytest.raises(ArtifactError, match=r"scores\.json cannot be read: No such file"):
        read_json(location, "scores.json", ModelQuality)
    (tmp_path / "scores.json").write_bytes(bytes(100))
    with pytest.raises(ArtifactError, match="larger than the limit of 50 bytes"):
        read_json(location, "scores.json", ModelQuality, limit=50)


def header(content, body=b""):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(8),
        struct.pack("<Q", 1 << 63) + b"{}",
        header(b"{"),
        header(b"[" * 10_000),
        header({"__metadata__": 5}),
        header(entry(shape=(10**12,)), bytes(4)),
        header(entry(shape=(2**64 - 1, 2)), bytes(4)),
        header(entry(shape=(0, 2**62), offsets=(0, 0))),
        header(entry(shape=(1,) * 80), bytes(4)),
        header(entry(dtype="BF16", shape=(2,)), bytes(4)),
        header(entry(dtype="F4", shape=(8,)), bytes(4)),
        header(entry(dtype="O"), bytes(4)),
        header(entry(offsets=(0, 400)), bytes(4)),
        header(entry(offsets=(-4, 0)), bytes(4)),
    ],
)
def test_array_files_with_other_sizes_are_refused(tmp_path, data):
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ArtifactError, match=r"a\.safetensors cannot be read: "):
        read_arrays(Location.at(tmp_path), "a.safetensors")


def test_arrays_have_the_type_and_shape_that_their_reader_expects(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(save({"x": np.zeros((2, 3), np.float32)}))
    arrays = read_arrays(Location.at(tmp_path), "a.safetensors")
    assert array(arrays, "x", "float32", (None, 3), "here").shape == (2, 3)
    for name, dtype, shape in (("y", "float32", (2, 3)), ("x", "int32", (2, 3)),
                               ("x", "float32", (2,)), ("x", "float32", (2, 4))):  # fmt: skip
        with pytest.raises(ArtifactError, match=f"here: `{name}` must be {dtype} of shape"):
            array(arrays, name, dtype, shape, "here")


def manifest(kind, **fields) -> Manifest:
    return SimpleNamespace(kind=kind, key="ab" * 32, **fields)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "quality"),
    [
        ("model", {"metric": "charm", "selection": {}}),
        ("model", {"metric": "accuracy", "selection": {"last": 5}}),
        ("model", {"metric": "accuracy", "selection": {"last": {"ood_val": "high"}}}),
        ("extractor", {"causal": {"iou": "high"}}),
        ("extractor", {"causal": 5}),
        ("extractor", {"held_out_scores": {"rest": []}}),
        ("extractor", {"held_out_scores_per_environment": [{"subgraph": 1}]}),
        ("extractor", {"scaffold": {"per_environment": [{"env_id": "x"}]}}),
        ("bridge", {"edge_auc": [1]}),
        ("bridge", {"count": {"accuracy": {}}}),
        ("mask", {"truth": {"precision": "good"}}),
        ("mask", 5),
        ("corpus", {"option_3": {"graphs": 1}}),
        ("corpus", {"featx": {"of": {"source": -1}}}),
    ],
)
def test_quality_of_another_shape_is_refused(kind, quality):
    with pytest.raises(ArtifactError, match=f"^the summary of {kind} abababababab .quality"):
        summary.read_quality(manifest(kind, summary={"quality": quality}))


def test_further_quality_metrics_are_kept():
    quality = {"edge_auc": 0.5, "a later metric": {"x": 1}}
    read = summary.read_quality(manifest("bridge", summary={"quality": quality}))
    assert read == quality
    assert summary.read_quality(manifest("statistics", summary={})) == {}


def test_options_and_descriptions_of_another_type_are_refused():
    with pytest.raises(ArtifactError, match=r"^the configuration of model abababababab"):
        summary.read_options(manifest("model", config={"learner": 5}), summary.TrainingOptions)
    with pytest.raises(ArtifactError, match=r"^the summary of mask abababababab"):
        summary.mask_summary(manifest("mask", summary={"feature_ranges": "0..1"}))
    with pytest.raises(ArtifactError, match=r"^the summary of model abababababab"):
        summary.model_scores(manifest("model", summary={}))
