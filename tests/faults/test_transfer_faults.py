"""What can be wrong with a corpus given away or received: said clearly, target untouched."""

import json
import shutil

import pytest

from gsx.stages.export.export import export
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.artifacts import motif


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A signed portable corpus, and the key it is signed with."""
    home = tmp_path_factory.mktemp("sound")
    made = motif(Store.at(home / "store"))
    export(Corpus(made), [made.manifest], home / "corpus")
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
    of_a_newer_version: "has schema version 99; this gsx reads version 1",
    half_uploaded: "manifest.json",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_command_takes_what_is_damaged(fault, sound, tmp_path):
    corpus = tmp_path / "corpus"
    shutil.copytree(sound / "corpus", corpus)
    fault(corpus)
    store = tmp_path / "store"
    for words in (
        ("verify", corpus),
        ("verify", corpus, "--signature", sound / "me.pub"),
        ("pull", corpus, "--store", store),
        ("export", corpus, tmp_path / "again", "--store", store),
        ("export", corpus, tmp_path / "again", "--to", "csv", "--store", store),
        ("report", corpus, "-o", tmp_path / "report.html", "--store", store),
    ):
        said = run(*words)
        assert said.code == 3, (words, said.out, said.err)
        assert FAULTS[fault] in said.err + said.out
    assert list(Store.at(store).entries()) == []
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "report.html").exists()


def test_the_signature_of_somebody_else_is_refused(sound, tmp_path):
    assert run("verify", sound / "corpus", "--signature", sound / "me.pub").code == 0
    said = run("verify", sound / "corpus", "--signature", sound / "other.pub")
    assert said.code == 3
    said = run("pull", sound / "corpus", "--trust", sound / "other.pub", "--store", tmp_path / "s")
    assert said.code == 3
    assert list(Store.at(tmp_path / "s").entries()) == []


@pytest.mark.parametrize("layout", ["portable", "csv", "zarr"])
def test_a_directory_that_is_not_empty_is_left_as_it_is(layout, sound, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = run("export", sound / "corpus", tmp_path, "--to", layout, "--store", sound / "store")
    assert said.code in (2, 3)
    assert "not empty" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("layout", ["portable", "pyg", "good", "ogb", "dgl", "csv"])
def test_a_really_full_disk_is_told_and_left_empty(layout, sound, ram):
    folder, remount = ram
    remount("size=16k")
    said = run("export", sound / "corpus", folder / "out", "--to", layout, "--store",
               sound / "store")  # fmt: skip
    assert said.code == 3, said.err
    assert f"no space left on {folder / 'out'}. Nothing was written there." in said.err
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
def test_nothing_is_written_into_an_artifact(command, sound):
    corpus = sound / "corpus"
    before = sorted(corpus.rglob("*"))
    words = [word.format(corpus=corpus) for word in command]
    said = run(*words, "--store", sound / "store")
    assert said.code == 3
    assert f"is inside the artifact {corpus}" in said.err
    assert "Choose a path outside of it." in said.err
    assert sorted(corpus.rglob("*")) == before


@pytest.mark.parametrize("option", [("report", "-o"), ("lineage", "--svg")])
def test_a_file_is_not_written_over_a_directory(option, sound, tmp_path):
    command, name = option
    said = run(command, sound / "corpus", name, tmp_path, "--store", sound / "store")
    assert said.code == 3
    assert f"{tmp_path} is a directory; nothing was written. Choose a file name." in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_key_page_or_picture(sound, ram):
    folder, remount = ram
    remount("size=8k")
    (folder / "fill").write_bytes(b"x" * 8192)
    corpus, store = sound / "corpus", ("--store", sound / "store")
    for words in (
        ("keygen", folder / "me"),
        ("report", corpus, "-o", folder / "r.html", *store),
        ("lineage", corpus, "--svg", folder / "l.svg", *store),
    ):
        said = run(*words)
        assert said.code == 3, said.err
        assert f"no space left on {folder}" in said.err
        assert [path.name for path in folder.iterdir()] == ["fill"]


def test_signing_again_on_a_full_disk_keeps_the_signature_that_was_there(sound, ram):
    folder, remount = ram
    corpus = folder / "corpus"
    shutil.copytree(sound / "corpus", corpus)
    used = sum(-(-path.stat().st_size // 4096) * 4 for path in corpus.rglob("*") if path.is_file())
    remount(f"size={used}k")
    before = (corpus / "manifest.json.minisig").read_bytes()
    said = run("sign", corpus, "--key", sound / "other.key")
    assert said.code == 3
    assert "Nothing was signed." in said.err
    assert (corpus / "manifest.json.minisig").read_bytes() == before
    assert run("verify", corpus, "--signature", sound / "me.pub").code == 0
