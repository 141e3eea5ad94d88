"""Stores and artifacts from an attacker: nothing outside is read, written or removed."""

import json
import os
import shutil
import threading

import pytest

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.in_use import hold
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST, RUN_RECORD, SIGNATURE
from gsx.storage.artifacts.origin import read_origin
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verify_files import verify_files
from gsx.storage.corpora.verify_corpus import verify_artifact
from gsx.storage.sharing.push_pull import pull
from tests.support.artifacts import blob, contents, gsx, identity, motif, replace_file


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


@pytest.fixture
def theirs(tmp_path):
    return Store.at(tmp_path / "theirs")


@pytest.fixture
def outside(tmp_path):
    """Return a folder with files of the user, and fail if any of them changes."""
    folder = tmp_path / "home"
    (folder / "documents/old").mkdir(parents=True)
    (folder / "documents/old/thesis.txt").write_text("do not lose")
    (folder / "secret").write_text("do not share")
    before = contents(folder), {path: path.stat() for path in sorted(folder.rglob("*"))}
    yield folder
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode)  # readable
    assert contents(folder) == before[0]
    assert {path: path.stat().st_mode for path in sorted(folder.rglob("*"))} == {
        path: stat.st_mode for path, stat in before[1].items()
    }


@pytest.mark.parametrize("name", [".drafts", ".transfers", ".trash"])
def test_gc_does_not_delete_behind_links_of_a_store(store, outside, name):
    blob(store)
    folder = store.location.local / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(outside / "documents")
    result = gsx("gc", "--delete", "--store", store.location.url)
    assert result.code == 3
    assert "follows no links inside a store" in " ".join(result.err.split())


def test_gc_removes_links_but_not_their_targets(store, outside):
    blob(store)
    for folder in (".drafts", ".transfers", ".trash"):
        (store.location.local / folder).mkdir(exist_ok=True)
        (store.location.local / folder / "old").symlink_to(outside / "documents")
    result = gsx("gc", "--delete", "--store", store.location.url)
    assert result.code == 0
    assert result.out.count("old") == 3
    assert not list(store.location.local.glob(".*/old"))


def test_gc_does_not_remove_an_artifact_behind_a_linked_kind(store, outside, theirs):
    artifact = blob(theirs)
    store.location.local.mkdir()
    (store.location.local / "blob").symlink_to(theirs.location.local / "blob")
    assert gsx("gc", artifact.key, "--delete", "--store", store.location.url).code == 3
    assert artifact.location.local.is_dir()
    assert list(store.entries()) == []


@pytest.mark.parametrize("name", [".drafts", ".locks", "blob"])
def test_a_build_does_not_write_behind_links_of_a_store(store, outside, name):
    store.location.local.mkdir()
    (store.location.local / name).symlink_to(outside / "documents")
    with pytest.raises(StoreError):
        blob(store)


def test_a_build_removes_links_from_an_earlier_draft(store, outside):
    draft = store.location.local / ".drafts" / identity().key
    (draft / "progress").mkdir(parents=True)
    (draft / "source").write_bytes(b"")
    (draft / "content").mkdir()
    (draft / "content/data").symlink_to(outside / "documents")
    (draft / "scratch").symlink_to(outside)
    artifact = blob(store)
    assert contents(artifact.location.local).keys() >= {"data/a.bin"}


def test_a_linked_draft_is_refused(store, outside):
    (store.location.local / ".drafts").mkdir(parents=True)
    (store.location.local / ".drafts" / identity().key).symlink_to(outside / "documents")
    with pytest.raises(StoreError, match="follows no links"):
        blob(store)


@pytest.mark.parametrize("name", [RUN_RECORD, SIGNATURE])
def test_pull_does_not_copy_the_target_of_a_link(store, theirs, outside, name):
    artifact = blob(theirs)
    link = artifact.location.local / name
    link.unlink(missing_ok=True)
    link.symlink_to(outside / "secret")
    pulled, _ = pull(artifact.location, store)
    assert not os.path.lexists(pulled.location.local / name)
    result = gsx("verify", artifact.location.url)
    assert result.code == 3
    assert f"{name} is not a regular file" in result.out


@pytest.mark.parametrize("name", [RUN_RECORD, SIGNATURE, MANIFEST, "data/a.bin"])
@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_special_files_are_refused_without_waiting(store, theirs, name, kind):
    artifact = blob(theirs)
    path = artifact.location.local / name
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    assert gsx("verify", artifact.location.url).code in ((3,) if kind == "fifo" else (0, 3))
    result = gsx("pull", artifact.location.url, "--store", store.location.url)
    assert result.code == (0 if name in (RUN_RECORD, SIGNATURE) else 3)
    assert "Traceback" not in result.err


def test_sidecars_that_are_not_what_they_claim_are_not_copied(store, theirs):
    artifact = blob(theirs)
    (artifact.location.local / SIGNATURE).write_text("#!/bin/sh")
    replace_file(artifact.location.local / RUN_RECORD, b'{"seconds": "many"}')
    pulled, _ = pull(artifact.location, store)
    names = {path.name for path in pulled.location.local.iterdir()}
    assert names == {"data", "notes.json", MANIFEST}


def test_unknown_fields_of_a_run_record_are_not_copied(store, theirs):
    artifact = blob(theirs)
    record = json.loads((artifact.location.local / RUN_RECORD).read_text())
    replace_file(artifact.location.local / RUN_RECORD, json.dumps({**record, "x": "y"}).encode())
    pulled, _ = pull(artifact.location, store)
    assert json.loads((pulled.location.local / RUN_RECORD).read_text()) == record


def test_a_file_and_its_partial_download_may_have_related_names(store, theirs):
    artifact = blob(theirs, {"x": b"1", "x.part": b"2"})
    pulled, _ = pull(artifact.location, store)
    assert verify_artifact(pulled.location).problems == ()


def test_bytes_that_change_during_verification_are_not_trusted(theirs, tmp_path, monkeypatch):
    corpus = motif(theirs)
    copied = shutil.copytree(corpus.location.local, tmp_path / "copied")
    shard = sorted((copied / "data").iterdir())[0]
    from gsx.storage.corpora import verify_corpus

    original = verify_corpus._check_graphs

    def flip_and_check(corpus, check):
        counts = original(corpus, check)
        shard.chmod(0o644)
        data = shard.read_bytes()
        shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return counts

    monkeypatch.setattr(verify_corpus, "_check_graphs", flip_and_check)
    report = verify_artifact(Location.at(copied))
    assert [problem.what for problem in report.problems] == ["changed during the verification"]
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="does not match the SHA-256"):
        Artifact.open(Location.at(copied))


def test_a_file_that_changes_while_it_is_hashed_is_reported(theirs, tmp_path, monkeypatch):
    from gsx.storage.artifacts import verify_files as module

    copied = shutil.copytree(blob(theirs).location.local, tmp_path / "copied")
    original = module.sha256_stream

    def hash_and_touch(stream, **options):
        result = original(stream, **options)
        (copied / "data/a.bin").chmod(0o600)
        return result

    monkeypatch.setattr(module, "sha256_stream", hash_and_touch)
    location = Location.at(copied)
    problems = verify_files(location, Artifact.peek(location).manifest).problems
    assert [problem.what for problem in problems] == ["changed while it was hashed"]


def test_a_verified_file_that_is_replaced_is_not_read(theirs, tmp_path):
    copied = shutil.copytree(blob(theirs).location.local, tmp_path / "copied")
    artifact = Artifact.open(Location.at(copied))
    replace_file(copied / "data/a.bin", b"FIRST")
    with pytest.raises(ArtifactError, match="changed after it was verified"):
        artifact.location.open("data/a.bin")


def test_a_verified_file_that_is_only_touched_is_read(theirs, tmp_path):
    copied = shutil.copytree(blob(theirs).location.local, tmp_path / "copied")
    artifact = Artifact.open(Location.at(copied))
    os.utime(copied / "data/a.bin", ns=(1, 1))
    with artifact.location.open("data/a.bin") as stream:
        assert stream.read() == b"first"


def test_a_pulled_artifact_does_not_replace_a_build(store, theirs):
    foreign = blob(theirs, {"data/a.bin": b"poisoned"})
    pulled, _ = pull(foreign.location, store)
    assert read_origin(pulled.location).source == str(foreign.location.local)
    built = blob(store)
    assert (built.generation, built.key) == (2, pulled.key)
    assert contents(built.location.local)["data/a.bin"] == b"first"
    assert store.find("blob", pulled.key) == built
    assert store.resolve(pulled.key) == built
    assert blob(store) == built


def test_a_pulled_generation_does_not_outrank_a_build(store, theirs):
    built = blob(store)
    pulled, _ = pull(blob(theirs, {"x": b"poisoned"}).location, store)
    assert pulled.generation == 2
    assert store.find("blob", built.key) == store.resolve(built.key) == built
    assert store.resolve(f"{built.key[:32]}.g2") == pulled


def test_a_pulled_artifact_replaces_a_build_if_the_user_allows_it(store, theirs):
    foreign = blob(theirs, {"data/a.bin": b"trusted"})
    pull(foreign.location, store)
    pulled, existed = pull(foreign.location, store, reuse=True)
    assert existed
    assert store.find("blob", foreign.key) == pulled
    assert contents(blob(store).location.local)["data/a.bin"] == b"trusted"


def test_prepare_builds_again_and_states_why(store, theirs):
    words = ("prepare", "motif-size", "--num-graphs", "30", "--store")
    key = json.loads(gsx(*words, theirs.location.url, "--json").out)["key"]
    gsx("pull", key, "--from", theirs.location.url, "--store", store.location.url)
    result = gsx(*words, store.location.url)
    assert "was not built here, so it is built again" in " ".join(result.err.split())
    assert "built in" in result.out


def test_the_origin_of_a_reused_artifact_is_stated(store, theirs):
    words = ("prepare", "motif-size", "--num-graphs", "30", "--store")
    key = json.loads(gsx(*words, theirs.location.url, "--json").out)["key"]
    gsx("pull", key, "--from", theirs.location.url, "--reuse", "--store", store.location.url)
    result = gsx(*words, store.location.url)
    assert "was not built here: pulled from" in " ".join(result.err.split())
    shown = gsx("show", key, "--store", store.location.url)
    assert "origin   pulled from" in shown.out
    assert json.loads(gsx("show", key, "--json", "--store", store.location.url).out)["origin"]
    assert "pulled from" in gsx("lineage", key, "--store", store.location.url).out
    out = store.location.local.with_name("out")
    exported = gsx("export", key, out, "--store", store.location.url)
    assert exported.code == 0, exported.err
    card = (out / "README.md").read_text()
    assert "pulled from a directory" in card
    assert str(theirs.location.local) not in card


def test_removing_an_artifact_removes_its_origin(store, theirs):
    pulled, _ = pull(blob(theirs).location, store)
    gsx("gc", pulled.key, "--delete", "--store", store.location.url)
    assert list((store.location.local / ".origins").iterdir()) == []


def test_four_pulls_at_once_leave_one_generation(store, theirs):
    artifact = motif(theirs)
    threads = [threading.Thread(target=pull, args=(artifact.location, store)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.entries())) == 1


def test_shards_of_a_received_folder_are_copied_and_not_linked(store, theirs, tmp_path):
    received = shutil.copytree(motif(theirs).location.local, tmp_path / "received")
    for path in (received / "data").iterdir():
        path.chmod(0o644)
    before = {path: path.stat() for path in (received / "data").iterdir()}
    words = ("augment", received, "drop-edge", "--store", store.location.url)
    result = gsx(*words, "--json")
    assert result.code == 0, result.err
    after = {path: path.stat() for path in (received / "data").iterdir()}
    assert {p: (s.st_mode, s.st_nlink) for p, s in before.items()} == {
        p: (s.st_mode, s.st_nlink) for p, s in after.items()
    }


def test_gc_leaves_an_artifact_that_is_being_read(store):
    old = blob(store)
    blob(store, force=True)
    assert read_files(old) == read_files(old)
    with hold([old]):
        result = gsx("gc", "--delete", "--store", store.location.url)
        assert result.code == 0
        assert old.location.local.is_dir()
        refused = gsx("gc", f"{old.key[:32]}.g2", "--delete", "--store", store.location.url)
        assert refused.code == 0
    assert gsx("gc", "--delete", "--store", store.location.url).code == 0


def test_gc_of_a_named_artifact_in_use_is_an_error(store):
    artifact = blob(store)
    with hold([artifact]):
        result = gsx("gc", artifact.key, "--delete", "--store", store.location.url)
    assert result.code == 3
    assert "in use by another gsx process" in " ".join(result.err.split())
    assert artifact.location.local.is_dir()


def read_files(artifact):
    return contents(artifact.location.local)
