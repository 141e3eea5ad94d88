"""What came from elsewhere is verified before it is read; what was verified is remembered."""

import json
import os
import shutil
import subprocess

import pytest

from gsx.errors import ArtifactError
from gsx.storage.artifacts import verify_files as verify
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from tests.support.artifacts import blob, gsx, replace_file, verification_cache_dir


@pytest.fixture
def foreign(tmp_path):
    """An artifact as it comes from somebody else: a folder this machine knows nothing about."""
    made = blob(Store.at(tmp_path / "theirs"))
    return shutil.copytree(made.location.local, tmp_path / "given")


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
def test_a_damaged_artifact_from_elsewhere_does_not_open(foreign, damage, text):
    damage(foreign)
    with pytest.raises(ArtifactError) as caught:
        Artifact.open(Location.at(foreign))
    assert str(foreign) in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(("damage", "text"), DAMAGES)
def test_verify_names_the_file_and_what_is_wrong_with_it(foreign, damage, text):
    damage(foreign)
    said = gsx("verify", foreign)
    assert said.code == 3
    assert said.out.startswith(f"DAMAGED  {foreign}")
    assert text in said.out


def test_a_folder_for_the_manifest_is_no_artifact(foreign):
    folder_for_manifest(foreign)
    said = gsx("verify", foreign)
    assert said.code == 3
    assert f"{foreign} is a directory without manifest.json" in said.err
    with pytest.raises(ArtifactError, match="is not a file; artifacts contain regular files only"):
        Artifact.open(Location.at(foreign))


def test_a_whole_artifact_from_elsewhere_opens_and_verifies(foreign):
    assert Artifact.open(Location.at(foreign)).manifest.kind == "blob"
    said = gsx("verify", foreign)
    assert (said.code, said.out) == (0, f"ok       {foreign}  3 files, 0 graphs\n")


def test_the_advice_for_a_damaged_artifact_says_what_to_do(foreign):
    flipped(foreign)
    with pytest.raises(ArtifactError) as caught:
        Artifact.open(Location.at(foreign))
    assert str(caught.value).splitlines() == [
        f"{foreign} is damaged:",
        "  data/a.bin does not match the SHA-256 in the manifest",
        "Nothing was read. Get the artifact from its source again, or rebuild it with "
        "`--force`.",
    ]


def test_many_problems_are_counted_not_listed(foreign):
    for number in range(20):
        (foreign / f"stranger-{number:02d}").write_bytes(b"")
    with pytest.raises(ArtifactError) as caught:
        Artifact.open(Location.at(foreign))
    assert "  stranger-07 is not listed in the manifest\n  … and 12 more\n" in str(caught.value)


def test_every_problem_is_listed_as_json(foreign):
    flipped(foreign)
    extra(foreign)
    checked = json.loads(gsx("verify", foreign, "--json").out)
    assert checked["ok"] is False
    assert [problem["path"] for problem in checked["artifacts"][0]["problems"]] == [
        "data/a.bin",
        "data/run-me.sh",
    ]


def test_a_file_name_that_is_no_text_is_shown_escaped(foreign):
    (foreign / os.fsdecode(b"bad-\xff\x1b[31m")).write_bytes(b"")
    said = gsx("verify", foreign)
    assert said.code == 3
    assert "bad-\\udcff\\x1b[31m is not listed in the manifest" in said.out
    assert json.loads(gsx("verify", foreign, "--json").out)["ok"] is False


@pytest.fixture
def abyss(foreign):
    """A folder inside ``foreign``, deeper than Python recurses."""
    folder = str(foreign)
    for _ in range(1100):
        folder += "/d"
        os.mkdir(folder)  # noqa: PTH102
    yield folder
    subprocess.run(["rm", "-rf", foreign / "d"], check=True)  # Python cannot


def test_folders_nested_beyond_reason_are_refused_not_followed_into_a_crash(foreign, abyss):
    with open(f"{abyss}/x", "wb"):  # noqa: PTH123
        pass
    with pytest.raises(ArtifactError, match="d/x is not listed in the manifest"):
        Artifact.open(Location.at(foreign))


def test_verify_all_names_every_damaged_artifact_and_passes_the_others(tmp_path):
    store = Store.at(tmp_path / "store")
    good, bad = blob(store), blob(store, config={"size": 2})
    flipped(bad.location.local)
    said = gsx("verify", "--all", "--store", store.location.url)
    assert said.code == 3
    assert f"ok       {good.location.url}" in said.out
    assert f"DAMAGED  {bad.location.url}" in said.out


def test_verify_all_finds_an_artifact_under_a_foreign_name(tmp_path):
    store = Store.at(tmp_path / "store")
    blob(store).location.local.rename(store.location.local / "blob" / ("0" * 32))
    said = gsx("verify", "--all", "--store", store.location.url)
    assert said.code == 3
    assert "whose key does not match the folder name" in said.out


def test_verify_all_finds_an_artifact_among_those_of_another_kind(tmp_path):
    store = Store.at(tmp_path / "store")
    made = blob(store).location.local
    (store.location.local / "corpus").mkdir()
    made.rename(store.location.local / "corpus" / made.name)
    said = gsx("verify", "--all", "--store", store.location.url)
    assert said.code == 3
    assert "is a blob in the folder of kind corpus" in said.out


@pytest.fixture
def hashed(monkeypatch):
    """The files that were hashed for verification."""
    seen = []
    original = verify.sha256_file

    def count(path):
        seen.append(path.name)
        return original(path)

    monkeypatch.setattr(verify, "sha256_file", count)
    return seen


def test_what_was_published_here_opens_without_hashing(tmp_path, hashed):
    store = Store.at(tmp_path / "store")
    made = blob(store)
    assert store.find("blob", made.key) == made
    assert hashed == []


def test_what_came_from_elsewhere_is_hashed_once(foreign, hashed):
    for _ in range(3):
        Artifact.open(Location.at(foreign))
    assert sorted(hashed) == ["a.bin", "b.bin", "notes.json"]


def test_what_gsx_verified_opens_without_hashing(foreign, hashed):
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
    """Give a file other bytes but its old size and modification time, as a careless sync may."""
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
    assert sorted(hashed) == ["a.bin", "b.bin", "notes.json"]


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
def test_an_unusable_cache_costs_time_and_nothing_else(
    foreign, hashed, tmp_path, monkeypatch, spoil
):
    cache = tmp_path / "cache"
    spoil(cache)
    monkeypatch.setenv("GSX_CACHE", str(cache))
    assert Artifact.open(Location.at(foreign)).manifest.kind == "blob"
    assert len(hashed) == 3


def test_a_damaged_ledger_means_verify_again(foreign, hashed):
    Artifact.open(Location.at(foreign))
    for record in verification_cache_dir().iterdir():
        record.write_bytes(b"\xff\x00")
    hashed.clear()
    Artifact.open(Location.at(foreign))
    assert len(hashed) == 3
