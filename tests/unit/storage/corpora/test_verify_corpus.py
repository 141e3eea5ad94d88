"""Verification reads every graph: invalid graphs are detected despite matching hashes."""

import json
import shutil

import numpy as np
import pytest

import gsx as package
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.publish import build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora import corpus_writer
from gsx.storage.corpora.corpus_writer import Shard, write_corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx, identity, motif, replace_file, verification_cache_dir
from tests.support.strategies import tiny_info, tiny_table


def unchecked_corpus(tmp_path, monkeypatch, tables, formats=("parquet",)):
    """Publish a corpus without validation; its hashes match."""
    shards = [Shard(split, 0, 1, 0, len(table)) for split, table in tables.items()]
    with monkeypatch.context() as patch:
        patch.setattr(corpus_writer, "validate_table", lambda table, info: table)
        built = build_artifact(
            Store.at(tmp_path / "store"),
            identity(kind="corpus"),
            lambda draft: write_corpus(
                draft, tiny_info(), shards, lambda shard: tables[shard.split], formats
            ),
        )
    return built.artifact


def honest():
    table = tiny_table()
    return {"train": table.slice(0, 2), "ood_test": table.slice(2, 3)}


def with_nan():
    tables = honest()
    feat = tables["train"].dense("node", "node_feat").copy()
    feat[2, 1] = np.nan
    return {**tables, "train": tables["train"].with_columns(node={"node_feat": feat})}


def with_label(value):
    tables = honest()
    label = np.array([value, -1], dtype=np.int32)
    return {**tables, "train": tables["train"].with_columns(graph={"label": label})}


def with_split():
    tables = honest()
    split = np.array([0, 1], dtype=np.int8)
    return {**tables, "train": tables["train"].with_columns(graph={"split": split})}


def with_ids(*ids):
    tables = honest()
    numbers = np.array(ids, dtype=np.int64)
    return {**tables, "train": tables["train"].with_columns(graph={"graph_id": numbers})}


@pytest.mark.parametrize("formats", [("parquet",), ("zarr",), ("parquet", "zarr")])
def test_a_valid_corpus_passes(tmp_path, monkeypatch, formats):
    result = verify_artifact(unchecked_corpus(tmp_path, monkeypatch, honest(), formats).location)
    assert result.problems == ()
    assert result.graphs == 3 * len(formats)


@pytest.mark.parametrize("form", ["parquet", "zarr"])
@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (with_nan(), "graph 10: node 2 has NaN or infinity in `node_feat`"),
        (with_label(7), "graph 10: label 7 is outside the 2 classes 0..1"),
        (with_label(1), "graph 10: label 1 does not match `y` [1.0, 0.0]"),
        (with_split(), "graph 11: a shard of `train` holds a graph of another split"),
        (with_ids(5, 5), "graph_id 5 belongs to more than one graph"),
        (with_ids(5, 12), "graph_id 12 belongs to more than one graph"),
    ],
)
def test_invalid_graphs_are_detected_despite_matching_hashes(
    tmp_path, monkeypatch, form, tables, text
):
    artifact = unchecked_corpus(tmp_path, monkeypatch, tables, (form,))
    result = gsx("verify", artifact.location.local)
    assert result.code == 3
    folder = {"parquet": "data", "zarr": "zarr"}[form]
    assert f"{folder} holds invalid graphs: " in result.out
    assert text in result.out


def test_wrong_counts_in_the_manifest_are_detected(tmp_path, monkeypatch):
    artifact = unchecked_corpus(tmp_path, monkeypatch, honest())
    manifest = artifact.location.local / "manifest.json"
    document = json.loads(manifest.read_text())
    document["counts"] = {"train": 3}
    replace_file(manifest, json.dumps(document).encode())
    (problem,) = verify_artifact(artifact.location).problems
    assert problem.what == (
        "holds {'train': 2, 'ood_test': 1} graphs; the manifest lists {'train': 3}"
    )


def test_a_shard_of_an_unknown_split_is_detected(tmp_path, monkeypatch):
    tables = {"holiday": honest()["train"]}
    (problem,) = verify_artifact(unchecked_corpus(tmp_path, monkeypatch, tables).location).problems
    assert "'data/holiday-00000-of-00001.parquet', which is not the name of a shard" in problem.what


def test_a_corpus_without_shards_is_detected(tmp_path, monkeypatch):
    artifact = unchecked_corpus(tmp_path, monkeypatch, {})
    (problem,) = verify_artifact(artifact.location).problems
    assert (problem.path, problem.what) == ("data", "has no shards, and neither has `zarr`")


def test_different_graphs_in_two_formats_are_detected(tmp_path, monkeypatch):
    other = honest()
    feat = other["train"].dense("node", "node_feat") + 1
    other["train"] = other["train"].with_columns(node={"node_feat": feat})

    def write(path, parts, info):
        from gsx.storage.corpora.zarr_format import write_zarr

        split = "train" if sum(map(len, parts)) == 2 else "ood_test"
        write_zarr(path, [other[split]], info)

    monkeypatch.setattr(corpus_writer, "write_zarr", write)
    artifact = unchecked_corpus(tmp_path, monkeypatch, honest(), ("parquet", "zarr"))
    (problem,) = verify_artifact(artifact.location).problems
    assert (problem.path, problem.what) == ("zarr", "holds different graphs than `data`")


def test_an_invalid_corpus_is_not_marked_as_verified(tmp_path, monkeypatch):
    artifact = unchecked_corpus(tmp_path, monkeypatch, with_nan())
    received = shutil.copytree(artifact.location.local, tmp_path / "given")
    before = len(list(verification_cache_dir().iterdir()))
    assert verify_artifact(Location.at(received)).problems
    assert len(list(verification_cache_dir().iterdir())) == before


def test_a_motif_corpus_passes_and_opens(tmp_path):
    artifact = motif(Store.at(tmp_path / "store"))
    assert verify_artifact(artifact.location).problems == ()
    assert len(package.open(artifact.location.local)) == 30
