"""Decoded bytes are bounded; wide one-hot features that gsx writes itself are readable."""

import msgspec
import numpy as np
import pytest

from gsx.errors import ArtifactError
from gsx.schema import corpus_columns
from gsx.stages.prepare.synthetic import motif
from gsx.storage.artifacts.publish import build_artifact
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora import zarr_format
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard, write_corpus
from gsx.storage.corpora.limits import (
    MAX_READ_BYTES,
    NO_EXTENT,
    RATIO,
    SHARD_READS,
    Extent,
    read_limit,
    shard_limit,
)
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.conftest import motif_split
from tests.support.artifacts import identity

WIDTH = 2000
MIB = 1 << 20


def wide_info():
    plain = motif.corpus_info("motif-size")
    names = ("node_truth", "basis_id", "motif_id", "width_id")
    columns = corpus_columns(
        outputs=3,
        num_features=WIDTH,
        feature_dtype="uint8",
        extras=tuple(column for column in plain.columns if column.name in names),
    )
    return msgspec.structs.replace(plain, num_features=WIDTH, columns=columns)


def wide_corpus(folder, graphs, file_format):
    """Write graphs whose node features are one-hot codes of 2,000 categories."""

    def build(shard):
        table = motif_split(shard.split, shard.start, shard.stop)
        nodes = np.arange(table.total_nodes)
        features = np.zeros((len(nodes), WIDTH), dtype=np.uint8)
        features[nodes, nodes % 7] = 1
        return table.with_columns(node={"node_feat": features})

    shards = [Shard("train", 0, 1, 0, graphs)]
    return build_artifact(
        Store.at(folder),
        identity(kind="corpus", config={"graphs": graphs, "format": file_format}),
        lambda draft: write_corpus(draft, wide_info(), shards, build, (file_format,)),
    ).artifact


@pytest.mark.slow
def test_a_row_group_of_wide_one_hot_features_is_readable(tmp_path):
    artifact = wide_corpus(tmp_path, 3200, "parquet")
    (size,) = [entry.size for path, entry in artifact.manifest.files.items() if "data/" in path]
    nodes = sum(group["nodes"] for group in artifact.manifest.summary["groups"])
    assert nodes * WIDTH * 5 > max(read_limit(0), RATIO * size)
    assert verify_artifact(artifact.location).problems == ()


def with_counts(artifact, **counts):
    """Return an artifact whose manifest lists other counts."""
    groups = [{**group, **counts} for group in artifact.manifest.summary["groups"]]
    summary = {**artifact.manifest.summary, "groups": groups}
    manifest = msgspec.structs.replace(artifact.manifest, summary=summary)
    return Artifact(artifact.location, manifest)


def test_counts_of_the_manifest_explain_what_a_shard_decodes_to(tmp_path, monkeypatch):
    artifact = wide_corpus(tmp_path, 100, "zarr")
    monkeypatch.setattr(zarr_format, "MIN_ZARR_BYTES", MIB)
    monkeypatch.setattr("gsx.storage.corpora.limits.RATIO", 1)
    assert len(Corpus(artifact).table()) == 100
    for counts in ({"nodes": 1}, {"max_nodes": 0}):
        with pytest.raises(ArtifactError, match=r"would decode .* set GSX_LIMIT_DECODED_BYTES"):
            Corpus(with_counts(artifact, **counts)).table()


def test_counts_of_the_manifest_do_not_explain_lists(tmp_path, monkeypatch):
    """A corpus with many nodes in its manifest cannot hide a large list column."""
    artifact = wide_corpus(tmp_path, 100, "zarr")
    monkeypatch.setattr(zarr_format, "MIN_ZARR_BYTES", 100)
    monkeypatch.setattr("gsx.storage.corpora.limits.RATIO", 0)
    with pytest.raises(ArtifactError, match=r": its lists would decode to [\d,]+ bytes"):
        Corpus(with_counts(artifact, nodes=1 << 50, max_nodes=1 << 50)).table()


def test_the_explained_bytes_follow_from_rows_and_widths():
    groups = [
        {"split": "train", "nodes": 10, "edges": 4, "max_nodes": 3},
        {"split": "train", "nodes": 20, "edges": 6, "max_nodes": 8},
        {"split": "id_val", "nodes": 99, "edges": 99, "max_nodes": 99},
    ]
    extent = Extent.of(groups, "train")
    assert extent == Extent(nodes=30, edges=10, largest=8)
    info = wide_info()
    one, two, many = (extent.decoded(info, graphs) for graphs in (1, 2, 100))
    node_bytes = sum(
        2 * (column.width or 1) * (np.dtype(column.dtype).itemsize + 4)
        for column in info.columns
        if column.axis == "node" and not column.ragged
    )
    assert two - one > 8 * node_bytes  # and the graph columns
    assert node_bytes * 30 < many < node_bytes * 32
    assert NO_EXTENT.decoded(info, 0) == 0


def test_no_manifest_raises_a_limit_above_the_absolute_bound(monkeypatch):
    assert read_limit(0, 1 << 50) == MAX_READ_BYTES
    assert shard_limit(0, 1 << 50) == SHARD_READS * MAX_READ_BYTES
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", "16G")
    assert read_limit(0, 1) == 16 << 30
