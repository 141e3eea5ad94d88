"""Faults of exported and received corpora are reported, and targets stay unchanged."""

import json
import shutil

import pytest

from gsx.stages.export.export import export
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.artifacts import motif


@pytest.fixture(scope="module")
def signed_corpus(tmp_path_factory):
    """Return the folder of a signed portable corpus and its keys."""
    home = tmp_path_factory.mktemp("signed_corpus")
    artifact = motif(Store.at(home / "store"))
    export(Corpus(artifact), [artifact.manifest], home / "corpus")
    assert run("keygen", home / "me").code == 0
    assert run("keygen", home / "other").code == 0
    assert run("sign", home / "corpus", "--key", home / "me.key").code == 0
    return home


def shard_of(corpus):
    return next((corpus / "data").glob("train-*.parquet"))


def tampered(corpus):
    shard = shard_of(corpus)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)


def missing(corpus):
    shard_of(corpus).unlink()


def of_a_newer_version(corpus):
    path = corpus / "manifest.json"
    manifest = json.loads(path.read_text())
    path.chmod(0o644)
    path.write_text(json.dumps({**manifest, "schema": 99, "new_field": 1}))


def half_uploaded(corpus):
    (corpus / "manifest.json").unlink()


FAULTS = {
    tampered: "data/train-00000-of-00001.parquet",
    missing: "data/train-00000-of-00001.parquet",
    of_a_newer_version: "has schema version 99; this gsx reads version 2",
    half_uploaded: "manifest.json",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_command_accepts_a_damaged_artifact(fault, signed_corpus, tmp_path):
    corpus = tmp_path / "corpus"
    shutil.copytree(signed_corpus / "corpus", corpus)
    fault(corpus)
    store = tmp_path / "store"
    for words in (
        ("verify", corpus),
        ("verify", corpus, "--signature", signed_corpus / "me.pub"),
        ("pull", corpus, "--store", store),
        ("export", corpus, tmp_path / "again", "--store", store),
        ("export", corpus, tmp_path / "again", "--to", "csv", "--store", store),
        ("report", corpus, "-o", tmp_path / "report.html", "--store", store),
    ):
        result = run(*words)
        assert result.code == 3, (words, result.out, result.err)
        assert FAULTS[fault] in result.err + result.out
    assert list(Store.at(store).entries()) == []
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "report.html").exists()


def test_the_signature_of_another_key_is_refused(signed_corpus, tmp_path):
    assert (
        run("verify", signed_corpus / "corpus", "--signature", signed_corpus / "me.pub").code == 0
    )
    result = run("verify", signed_corpus / "corpus", "--signature", signed_corpus / "other.pub")
    assert result.code == 3
    result = run(
        "pull",
        signed_corpus / "corpus",
        "--trust",
        signed_corpus / "other.pub",
        "--store",
        tmp_path / "s",
    )
    assert result.code == 3
    assert list(Store.at(tmp_path / "s").entries()) == []


@pytest.mark.parametrize("layout", ["portable", "csv", "zarr"])
def test_a_directory_that_is_not_empty_is_left_as_it_is(layout, signed_corpus, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = run(
        "export",
        signed_corpus / "corpus",
        tmp_path,
        "--to",
        layout,
        "--store",
        signed_corpus / "store",
    )
    assert result.code in (2, 3)
    assert "not empty" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("layout", ["portable", "pyg", "good", "ogb", "dgl", "csv"])
def test_a_full_file_system_is_reported_and_left_empty(layout, signed_corpus, ram):
    folder, remount = ram
    remount("size=16k")
    result = run("export", signed_corpus / "corpus", folder / "out", "--to", layout, "--store",
               signed_corpus / "store")  # fmt: skip
    assert result.code == 3, result.err
    assert f"no space left on {folder / 'out'}. Nothing was written there." in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ("export", "{corpus}", "{corpus}/inner"),
        ("export", "{corpus}", "{corpus}/data/inner", "--to", "csv"),
        ("report", "{corpus}", "-o", "{corpus}/report.html"),
        ("lineage", "{corpus}", "--svg", "{corpus}/lineage.svg"),
    ],
)
def test_nothing_is_written_into_an_artifact(command, signed_corpus):
    corpus = signed_corpus / "corpus"
    before = sorted(corpus.rglob("*"))
    words = [word.format(corpus=corpus) for word in command]
    result = run(*words, "--store", signed_corpus / "store")
    assert result.code == 3
    assert f"is inside the artifact {corpus}" in result.err
    assert "Choose a path outside of it." in result.err
    assert sorted(corpus.rglob("*")) == before


@pytest.mark.parametrize("option", [("report", "-o"), ("lineage", "--svg")])
def test_a_file_is_not_written_over_a_directory(option, signed_corpus, tmp_path):
    command, name = option
    result = run(
        command, signed_corpus / "corpus", name, tmp_path, "--store", signed_corpus / "store"
    )
    assert result.code == 3
    assert f"{tmp_path} is a directory; nothing was written. Choose a file name." in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_key_report_or_image(signed_corpus, ram):
    folder, remount = ram
    remount("size=8k")
    (folder / "fill").write_bytes(b"x" * 8192)
    corpus, store = signed_corpus / "corpus", ("--store", signed_corpus / "store")
    for words in (
        ("keygen", folder / "me"),
        ("report", corpus, "-o", folder / "r.html", *store),
        ("lineage", corpus, "--svg", folder / "l.svg", *store),
    ):
        result = run(*words)
        assert result.code == 3, result.err
        assert f"no space left on {folder}" in result.err
        assert [path.name for path in folder.iterdir()] == ["fill"]


def test_a_failed_signing_keeps_the_previous_signature(signed_corpus, ram):
    folder, remount = ram
    corpus = folder / "corpus"
    shutil.copytree(signed_corpus / "corpus", corpus)
    used = sum(-(-path.stat().st_size // 4096) * 4 for path in corpus.rglob("*") if path.is_file())
    remount(f"size={used}k")
    before = (corpus / "manifest.json.minisig").read_bytes()
    result = run("sign", corpus, "--key", signed_corpus / "other.key")
    assert result.code == 3
    assert "Nothing was signed." in result.err
    assert (corpus / "manifest.json.minisig").read_bytes() == before
    assert run("verify", corpus, "--signature", signed_corpus / "me.pub").code == 0
