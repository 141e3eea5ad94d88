"""A portable copy is the corpus that it holds: the same key, the same models, the same lineage."""

import json
import shutil

import msgspec
import pytest

from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    decode_manifest,
    encode_manifest,
    files_digest,
    manifest_key,
)
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.portable_copies import identity
from tests.support.artifacts import gsx

WORDS = ("motif-size", "--num-graphs", 120, "--options", "001", "--bridges", "none", "--count", 20)
SMALL = ("--epochs", 1, "--width", 8)


def output(*words):
    result = gsx(*words, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.fixture
def made(tmp_path):
    """Return the store, the portable copy, and the output of the command that wrote both."""
    store, copy = tmp_path / "store", tmp_path / "made"
    return store, copy, output("generate", *WORDS, "--out", copy, "--store", store)


def test_the_copy_has_the_key_and_the_options_of_its_corpus(made):
    store, copy, printed = made
    shown = output("show", copy, "--store", store)
    stored = output("show", printed["key"], "--store", store)
    assert shown["key"] == printed["key"] == stored["key"]
    assert shown["config"] == stored["config"]
    assert shown["copy"]["config"]["layout"] == "portable"
    assert shown["path"] == str(copy)
    assert "a portable copy of" in gsx("show", copy, "--store", store).out


def test_a_model_trained_on_the_copy_is_that_of_the_corpus(made):
    store, copy, printed = made
    model = output("train", copy, *SMALL, "--store", store)
    again = output("train", printed["key"], *SMALL, "--store", store)
    assert (again["key"], again["reused"]) == (model["key"], True)
    lineage = output("lineage", model["key"], "--store", store)["lineage"]
    assert [row["stage"] for row in lineage] == ["train", "generate", "prepare"]
    assert lineage[1]["key"] == printed["key"]


def test_the_lineage_is_known_in_another_store(made, tmp_path):
    _, copy, printed = made
    store = tmp_path / "other"
    model = output("train", copy, *SMALL, "--store", store)
    lineage = output("lineage", model["key"], "--store", store)["lineage"]
    assert [(row["stage"], row["stored"]) for row in lineage] == [
        ("train", True), ("generate", False), ("prepare", False),
    ]  # fmt: skip
    assert lineage[1]["key"] == printed["key"]
    text = gsx("lineage", model["key"], "--store", store).out
    assert "by generate, not in this store" in text


def test_results_of_the_copy_and_of_the_corpus_are_comparable(made, tmp_path):
    store, copy, printed = made
    results = tmp_path / "results"
    words = (*SMALL, "--results", results, "--store", store)
    output("train", copy, "--source-only", "--method", "baseline", *words)
    output("train", printed["key"], "--method", "spliced", *words)
    compared = output("compare", results, "spliced", "baseline", "--store", store)
    assert compared["comparisons"][0]["seeds"] == 1
    evaluated = output("evaluate", output("train", copy, *SMALL, "--store", store)["key"], copy,
                       "--store", store)  # fmt: skip
    assert evaluated["corpus_key"] == printed["key"]


def test_a_copy_is_generated_from_like_its_corpus(tmp_path):
    store, copy = tmp_path / "store", tmp_path / "source"
    source = output("prepare", "motif-size", "--num-graphs", 120, "--store", store)
    output("export", source["key"], copy, "--store", store)
    options = ("--options", "110", "--bridges", "random", "--count", 5, "--preset", "quick")
    extractor = output("pretrain", "extract", copy, "--preset", "quick", "--store", store)
    first = output("generate", copy, *options, "--extractor", extractor["key"], "--store", store)
    second = output("generate", source["key"], *options, "--store", store)
    assert (second["key"], second["reused"]) == (first["key"], True)


def altered(copy, change):
    """Change the manifest of a copy and recompute its hashes."""
    path = copy / MANIFEST
    manifest = decode_manifest(path.read_bytes(), "test")
    changed = change(manifest)
    changed = msgspec.structs.replace(changed, digest=files_digest(changed.files))
    changed = msgspec.structs.replace(changed, key=manifest_key(changed))
    path.unlink()
    path.write_bytes(encode_manifest(changed))
    return Artifact(Location.at(copy), changed)


def without_a_shard(manifest):
    files = {name: e for name, e in manifest.files.items() if not name.startswith("data/ood_test")}
    return msgspec.structs.replace(manifest, files=files)


def with_another_shard(manifest):
    shard = next(e for name, e in manifest.files.items() if name.startswith("data/"))
    return msgspec.structs.replace(
        manifest, files={**manifest.files, "data/train-00009-of-00010.parquet": shard}
    )


def with_changed_data(manifest):
    name = next(name for name in manifest.files if name.startswith("data/train"))
    entry = msgspec.structs.replace(manifest.files[name], sha256="0" * 64)
    return msgspec.structs.replace(manifest, files={**manifest.files, name: entry})


def with_another_parent(manifest):
    parent = msgspec.structs.replace(manifest.parents[0], digest="0" * 64)
    return msgspec.structs.replace(manifest, parents=(parent,))


def without_lineage(manifest):
    files = {name: e for name, e in manifest.files.items() if not name.startswith("lineage/")}
    return msgspec.structs.replace(manifest, files=files)


@pytest.mark.parametrize(
    "change",
    [without_a_shard, with_another_shard, with_changed_data, with_another_parent, without_lineage],
)
def test_a_copy_with_other_data_has_its_own_identity(made, change):
    _, copy, printed = made
    artifact = Artifact.open(Location.at(copy))
    assert identity(artifact).key == printed["key"]
    forged = altered(copy, change)
    assert identity(forged) is forged.manifest


def test_parquet_files_of_a_zarr_corpus_are_another_corpus(tmp_path):
    store, copy = tmp_path / "store", tmp_path / "made"
    printed = output("prepare", "motif-size", "--num-graphs", 60, "--format", "zarr", "--store",
                     store)  # fmt: skip
    exported = output("export", printed["key"], copy, "--store", store)
    artifact = Artifact.open(Location.at(copy))
    assert identity(artifact).key == exported["key"] != printed["key"]


def test_an_exact_copy_has_the_identity_of_its_artifact(tmp_path):
    store = tmp_path / "store"
    printed = output("prepare", "motif-size", "--num-graphs", 60, "--out", tmp_path / "copy",
                     "--store", store)  # fmt: skip
    shutil.rmtree(store)
    shown = output("show", tmp_path / "copy", "--store", store)
    assert shown["key"] == printed["key"]
    assert "copy" not in shown
    assert Store.at(store).resolve(str(tmp_path / "copy")).key == printed["key"]


def test_a_directory_and_a_tag_of_the_same_corpus_are_not_ambiguous(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--num-graphs", 120, "--store", "store")
    assert gsx("prepare", "motif-size", *words, "--out", "mine", "--tag", "mine").code == 0
    shown = gsx("show", "mine", "--store", "store")
    assert shown.code == 0, shown.err
    assert "tags     mine" in shown.out
    other = gsx("prepare", "motif-size", "--num-graphs", 60, "--store", "store", "--tag", "mine")
    assert other.code == 0
    ambiguous = gsx("show", "mine", "--store", "store")
    assert ambiguous.code == 2
    assert "`mine` is a directory, and a tag of corpus" in ambiguous.err
