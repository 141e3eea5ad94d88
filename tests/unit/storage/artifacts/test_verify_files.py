"""Artifacts of other machines are verified before reading, and only once."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gsx.errors import ArtifactError
from gsx.storage.artifacts import safe_files, verify_files
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from tests.support.artifacts import blob, gsx, replace_file, verification_cache_dir


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Return the folder of an artifact that this machine has not verified."""
    monkeypatch.setattr(safe_files, "_TICK_NS", 0)  # record files that have just been copied
    artifact = blob(Store.at(tmp_path / "theirs"))
    return shutil.copytree(artifact.location.local, tmp_path / "given")


def truncated(root):
    replace_file(root / "data/a.bin", b"fir")


def emptied(root):
    replace_file(root / "data/a.bin", b"")


def oversized(root):
    replace_file(root / "data/a.bin", b"first and more")


def flipped(root):
    replace_file(root / "data/a.bin", b"girst")


def missing(root):
    (root / "data/a.bin").unlink()


def without_folder(root):
    shutil.rmtree(root / "data")


def extra(root):
    (root / "data" / "run-me.sh").write_bytes(b"rm -rf /")


def extra_hidden(root):
    (root / ".hidden").write_bytes(b"")


def linked_file(root):
    (root / "data/a.bin").rename(root.parent / "a.bin")
    (root / "data/a.bin").symlink_to(root.parent / "a.bin")


def linked_folder(root):
    (root / "data").rename(root.parent / "data")
    (root / "data").symlink_to(root.parent / "data")


def folder_for_file(root):
    (root / "data/a.bin").unlink()
    (root / "data/a.bin").mkdir()


def pipe_for_file(root):
    (root / "data/a.bin").unlink()
    os.mkfifo(root / "data/a.bin")


def linked_run_record(root):
    (root / "run.json").unlink()
    (root / "run.json").symlink_to("/etc/hostname")


def pipe_for_run_record(root):
    (root / "run.json").unlink()
    os.mkfifo(root / "run.json")


def linked_manifest(root):
    (root / "manifest.json").rename(root.parent / "manifest.json")
    (root / "manifest.json").symlink_to(root.parent / "manifest.json")


def pipe_for_manifest(root):
    (root / "manifest.json").unlink()
    os.mkfifo(root / "manifest.json")


def folder_for_manifest(root):
    (root / "manifest.json").unlink()
    (root / "manifest.json").mkdir()


def edited_manifest(root):
    text = (root / "manifest.json").read_text()
    replace_file(root / "manifest.json", text.replace('"size": 1', '"size": 2').encode())


DAMAGES = [
    (truncated, "data/a.bin has 3 bytes; the manifest lists 5"),
    (emptied, "data/a.bin has 0 bytes; the manifest lists 5"),
    (oversized, "data/a.bin has 14 bytes; the manifest lists 5"),
    (flipped, "data/a.bin does not match the SHA-256 in the manifest"),
    (missing, "data/a.bin is missing"),
    (without_folder, "data/b.bin is missing"),
    (extra, "data/run-me.sh is not listed in the manifest"),
    (extra_hidden, ".hidden is not listed in the manifest"),
    (linked_file, "data/a.bin is not a regular file (links are not allowed)"),
    (linked_folder, "data/a.bin is not a regular file (links are not allowed)"),
    (folder_for_file, "data/a.bin is not a regular file (links are not allowed)"),
    (pipe_for_file, "data/a.bin is not a regular file (links are not allowed)"),
    (linked_run_record, "run.json is not a regular file (links are not allowed)"),
    (pipe_for_run_record, "run.json is not a regular file (links are not allowed)"),
    (linked_manifest, "manifest.json is a symbolic link; artifacts contain regular files only."),
    (pipe_for_manifest, "manifest.json is not a file; artifacts contain regular files only."),
    (edited_manifest, "the key does not match the stage, its config and its inputs"),
]


@pytest.mark.parametrize(("damage", "text"), DAMAGES)
def test_a_damaged_artifact_from_another_machine_does_not_open(foreign, damage, text):
    damage(foreign)
    with pytest.raises(ArtifactError) as error:
        Artifact.open(Location.at(foreign))
    assert str(foreign) in str(error.value)
    assert text in str(error.value)


@pytest.mark.parametrize(("damage", "text"), DAMAGES)
def test_verify_reports_the_file_and_its_problem(foreign, damage, text):
    damage(foreign)
    result = gsx("verify", foreign)
    assert result.code == 3
    assert result.out.startswith(f"DAMAGED  {foreign}")
    assert text in result.out


def test_a_folder_named_manifest_is_not_an_artifact(foreign):
    folder_for_manifest(foreign)
    result = gsx("verify", foreign)
    assert result.code == 3
    assert f"{foreign} is a directory without manifest.json" in result.err
    with pytest.raises(ArtifactError, match="is not a file; artifacts contain regular files only"):
        Artifact.open(Location.at(foreign))


def test_an_intact_artifact_from_another_machine_opens_and_verifies(foreign):
    assert Artifact.open(Location.at(foreign)).manifest.kind == "blob"
    result = gsx("verify", foreign)
    assert (result.code, result.out) == (0, f"ok       {foreign}  3 files, 0 graphs\n")


def test_the_error_of_a_damaged_artifact_contains_advice(foreign):
    flipped(foreign)
    with pytest.raises(ArtifactError) as error:
        Artifact.open(Location.at(foreign))
    assert str(error.value).splitlines() == [
        f"{foreign} is damaged:",
        "  data/a.bin does not match the SHA-256 in the manifest",
        "Nothing was read. Get the artifact from its source again, or rebuild it with `--force`.",
    ]


def test_many_problems_are_counted_not_listed(foreign):
    for number in range(20):
        (foreign / f"stranger-{number:02d}").write_bytes(b"")
    with pytest.raises(ArtifactError) as error:
        Artifact.open(Location.at(foreign))
    assert "  stranger-07 is not listed in the manifest\n  … and 12 more\n" in str(error.value)


def test_every_problem_is_listed_as_json(foreign):
    flipped(foreign)
    extra(foreign)
    checked = json.loads(gsx("verify", foreign, "--json").out)
    assert checked["ok"] is False
    assert [problem["path"] for problem in checked["artifacts"][0]["problems"]] == [
        "data/a.bin",
        "data/run-me.sh",
    ]


def test_a_file_name_that_is_not_utf8_is_printed_escaped(foreign):
    (foreign / os.fsdecode(b"bad-\xff\x1b[31m")).write_bytes(b"")
    result = gsx("verify", foreign)
    assert result.code == 3
    assert "bad-\\udcff\\x1b[31m is not listed in the manifest" in result.out
    assert json.loads(gsx("verify", foreign, "--json").out)["ok"] is False


@pytest.fixture
def deep_folder(foreign):
    """Create a folder inside ``foreign`` that is deeper than Python's recursion limit."""
    folder = str(foreign)
    for _ in range(1100):
        folder += "/d"
        os.mkdir(folder)  # noqa: PTH102
    yield folder
    subprocess.run(["rm", "-rf", foreign / "d"], check=True)  # Python cannot


def test_deeply_nested_folders_are_refused(foreign, deep_folder):
    with open(f"{deep_folder}/x", "wb"):  # noqa: PTH123
        pass
    with pytest.raises(ArtifactError, match="64 levels of directories"):
        Artifact.open(Location.at(foreign))


def test_verify_all_reports_every_damaged_artifact_and_passes_the_others(tmp_path):
    store = Store.at(tmp_path / "store")
    good, bad = blob(store), blob(store, config={"size": 2})
    flipped(bad.location.local)
    result = gsx("verify", "--all", "--store", store.location.url)
    assert result.code == 3
    assert f"ok       {good.location.url}" in result.out
    assert f"DAMAGED  {bad.location.url}" in result.out


def test_verify_all_detects_an_artifact_in_the_folder_of_another_key(tmp_path):
    store = Store.at(tmp_path / "store")
    blob(store).location.local.rename(store.location.local / "blob" / ("0" * 32))
    result = gsx("verify", "--all", "--store", store.location.url)
    assert result.code == 3
    assert "whose key does not match the folder name" in result.out


def test_verify_all_detects_an_artifact_in_the_folder_of_another_kind(tmp_path):
    store = Store.at(tmp_path / "store")
    artifact = blob(store).location.local
    (store.location.local / "corpus").mkdir()
    artifact.rename(store.location.local / "corpus" / artifact.name)
    result = gsx("verify", "--all", "--store", store.location.url)
    assert result.code == 3
    assert "is a blob in the folder of kind corpus" in result.out


@pytest.fixture
def hashed(monkeypatch):
    """Record the files that are hashed for verification."""
    names = []
    original = verify_files._hash

    def count(location, path, entry):
        names.append(Path(path).name)
        return original(location, path, entry)

    monkeypatch.setattr(verify_files, "_hash", count)
    return names


def test_an_artifact_published_here_opens_without_hashing(tmp_path, hashed):
    store = Store.at(tmp_path / "store")
    artifact = blob(store)
    assert store.find("blob", artifact.key) == artifact
    assert hashed == []


def test_an_artifact_from_another_machine_is_hashed_once(foreign, hashed):
    for _ in range(3):
        Artifact.open(Location.at(foreign))
    assert sorted(hashed) == ["a.bin", "b.bin", "notes.json"]


def test_a_verified_artifact_opens_without_hashing(foreign, hashed):
    gsx("verify", foreign)
    hashed.clear()
    Artifact.open(Location.at(foreign))
    assert hashed == []


def test_a_moved_artifact_is_hashed_again(foreign, hashed):
    Artifact.open(Location.at(foreign))
    hashed.clear()
    foreign.rename(foreign.with_name("moved"))
    Artifact.open(Location.at(foreign.with_name("moved")))
    assert len(hashed) == 3


def touch(root):
    os.utime(root / "data/a.bin", ns=(1, 1))


def copy_back(root):
    """Change the bytes of a file but keep its size and modification time, as some sync tools do."""
    path = root / "data/a.bin"
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"first")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    path.chmod(before.st_mode)


@pytest.mark.parametrize("change", [touch, copy_back])
def test_a_changed_file_is_hashed_again(foreign, hashed, change):
    Artifact.open(Location.at(foreign))
    hashed.clear()
    change(foreign)
    Artifact.open(Location.at(foreign))
    assert hashed == ["a.bin"]


def test_damage_after_verification_is_found_on_the_next_opening(foreign):
    Artifact.open(Location.at(foreign))
    flipped(foreign)
    with pytest.raises(ArtifactError, match=r"data/a\.bin does not match the SHA-256"):
        Artifact.open(Location.at(foreign))


def cache_is_a_file(path):
    path.write_text("")


def cache_holds_garbage(path):
    (path / "verified").mkdir(parents=True)
    for number in range(16):
        (path / "verified" / f"{number:x}").write_bytes(b"\xff\xfe")


def cache_cannot_be_made(path):
    path.symlink_to(path / "loop")


@pytest.mark.parametrize("spoil", [cache_is_a_file, cache_holds_garbage, cache_cannot_be_made])
def test_an_unusable_cache_only_costs_time(foreign, hashed, tmp_path, monkeypatch, spoil):
    cache = tmp_path / "cache"
    spoil(cache)
    monkeypatch.setenv("GSX_CACHE", str(cache))
    assert Artifact.open(Location.at(foreign)).manifest.kind == "blob"
    assert len(hashed) == 3


def test_a_damaged_verification_cache_causes_a_new_verification(foreign, hashed):
    Artifact.open(Location.at(foreign))
    for record in verification_cache_dir().iterdir():
        record.write_bytes(b"\xff\x00")
    hashed.clear()
    Artifact.open(Location.at(foreign))
    assert len(hashed) == 3
