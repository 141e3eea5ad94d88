"""A copy is complete, verified and never overwrites anything."""

import errno
import shutil

import pytest

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.sharing import copy_out
from gsx.storage.sharing.copy_out import copy_artifact
from tests.support.artifacts import blob, contents


@pytest.fixture
def artifact(tmp_path):
    return blob(Store.at(tmp_path / "store"))


def entries_next_to_store(tmp_path):
    """Return the entries next to the store, where no temporary folder may remain."""
    return sorted(path.name for path in tmp_path.iterdir() if path.name != "store")


def test_a_copy_holds_the_same_files(artifact, tmp_path):
    target = copy_artifact(artifact, tmp_path / "deep" / "out")
    assert target == tmp_path / "deep" / "out"
    assert contents(target) == contents(artifact.location.local)
    assert Artifact.open(Location.at(target)).manifest == artifact.manifest
    assert entries_next_to_store(tmp_path) == ["deep"]


def test_an_empty_folder_may_be_the_target(artifact, tmp_path):
    (tmp_path / "out").mkdir()
    copy_artifact(artifact, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(artifact.location.local)


def test_the_working_folder_may_be_the_target(artifact, tmp_path, monkeypatch):
    from pathlib import Path

    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    copy_artifact(artifact, Path())
    assert contents(tmp_path / "out") == contents(artifact.location.local)


def test_a_target_that_is_not_empty_is_refused_and_left(artifact, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("do not lose")
    with pytest.raises(StoreError) as error:
        copy_artifact(artifact, tmp_path / "out")
    assert str(error.value) == (
        f"{tmp_path / 'out'} is not empty; nothing was written. Choose an empty or new directory."
    )
    assert contents(tmp_path / "out") == {"thesis.txt": b"do not lose"}
    assert entries_next_to_store(tmp_path) == ["out"]


def test_a_target_that_is_a_file_is_refused_and_left(artifact, tmp_path):
    (tmp_path / "out").write_text("do not lose")
    with pytest.raises(
        StoreError, match=r"out is not a directory; nothing was written\. Choose another"
    ):
        copy_artifact(artifact, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "do not lose"


@pytest.mark.parametrize("inside", ["x", "x/y"])
def test_a_target_inside_a_file_is_refused(artifact, tmp_path, inside):
    (tmp_path / "file").write_text("do not lose")
    with pytest.raises(StoreError, match="file is not a directory"):
        copy_artifact(artifact, tmp_path / "file" / inside)
    assert (tmp_path / "file").read_text() == "do not lose"


@pytest.mark.parametrize("full", [True, False])
def test_a_target_that_is_a_link_is_refused(artifact, tmp_path, full):
    (tmp_path / "elsewhere").mkdir()
    if full:
        (tmp_path / "elsewhere" / "x").write_text("x")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        StoreError, match=r"out is a symbolic link; nothing was written\. Choose a directory"
    ):
        copy_artifact(artifact, tmp_path / "out")


def test_a_target_that_holds_the_same_content_is_left_as_it_is(artifact, tmp_path):
    target = copy_artifact(artifact, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert copy_artifact(artifact, target) == target
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


def spoil_file(target):
    (target / "data/a.bin").write_bytes(b"FIRST")


def spoil_manifest(target):
    (target / "manifest.json").write_bytes(b"{")


@pytest.mark.parametrize("spoil", [spoil_file, spoil_manifest])
def test_a_target_that_holds_a_damaged_copy_is_refused_and_left(artifact, tmp_path, spoil):
    target = copy_artifact(artifact, tmp_path / "out")
    spoil(target)
    before = contents(target)
    with pytest.raises(StoreError, match="out is not empty; nothing was written"):
        copy_artifact(artifact, target)
    assert contents(target) == before


def test_a_target_that_holds_another_artifact_is_refused_and_left(artifact, tmp_path):
    other = blob(Store.at(tmp_path / "store"), {"x": b"1"}, config={"size": 2})
    target = copy_artifact(other, tmp_path / "out")
    with pytest.raises(StoreError, match="out is not empty; nothing was written"):
        copy_artifact(artifact, target)
    assert contents(target) == contents(other.location.local)


@pytest.mark.parametrize("data", [b"FIRST", b"longer than before", None])
@pytest.mark.parametrize("there", [True, False])
def test_a_damaged_artifact_is_not_copied(artifact, tmp_path, data, there):
    path = artifact.location.local / "data/a.bin"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    if there:
        (tmp_path / "out").mkdir()
    with pytest.raises(ArtifactError) as error:
        copy_artifact(artifact, tmp_path / "out")
    assert str(error.value).startswith(f"{artifact.location.url} is damaged:\n  data/a.bin ")
    assert entries_next_to_store(tmp_path) == (["out"] if there else [])
    assert not there or contents(tmp_path / "out") == {}


def test_a_full_disk_leaves_nothing_behind(artifact, tmp_path, monkeypatch):
    def full(source, target, length):
        target.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copy_out.shutil, "copyfileobj", full)
    with pytest.raises(StoreError, match=r"no space left on .*out\. Nothing was written there"):
        copy_artifact(artifact, tmp_path / "out")
    assert entries_next_to_store(tmp_path) == []


def test_an_interrupted_copy_leaves_nothing_behind(artifact, tmp_path, monkeypatch):
    def interrupt(source, target, length):
        raise KeyboardInterrupt

    monkeypatch.setattr(copy_out.shutil, "copyfileobj", interrupt)
    with pytest.raises(KeyboardInterrupt):
        copy_artifact(artifact, tmp_path / "out")
    assert entries_next_to_store(tmp_path) == []


def test_an_incomplete_copy_of_a_killed_process_is_not_used(artifact, tmp_path):
    leftover = tmp_path / ".out.0123abcd.tmp"
    leftover.mkdir()
    (leftover / "stranger").write_bytes(b"half")
    copy_artifact(artifact, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(artifact.location.local)
    assert entries_next_to_store(tmp_path) == ["out"]


def test_an_artifact_without_a_run_record_is_copied_without_one(artifact, tmp_path):
    received = shutil.copytree(artifact.location.local, tmp_path / "given")
    (received / "run.json").unlink()
    target = copy_artifact(Artifact.open(Location.at(received)), tmp_path / "out")
    assert contents(target) == contents(received)


def test_a_remote_artifact_is_copied_to_a_local_directory(tmp_path):
    store = Store.at("memory://copied")
    artifact = blob(store)
    target = copy_artifact(store.find("blob", artifact.key), tmp_path / "out")
    assert Artifact.open(Location.at(target)).manifest == artifact.manifest
    artifact.location.fs.rm("/copied", recursive=True)


def test_a_remote_artifact_with_other_bytes_of_the_same_size_is_not_copied(tmp_path):
    store = Store.at("memory://swapped")
    artifact = blob(store)
    artifact.location.fs.pipe_file(artifact.location.path("data/a.bin"), b"FIRST")
    with pytest.raises(ArtifactError, match=r"data/a\.bin does not match the SHA-256"):
        copy_artifact(store.find("blob", artifact.key), tmp_path / "out")
    assert entries_next_to_store(tmp_path) == []
    artifact.location.fs.rm("/swapped", recursive=True)
