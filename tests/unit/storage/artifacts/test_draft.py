"""A draft keeps finished units and nothing else."""

import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import ArtifactError
from gsx.storage.artifacts.digest import readable_json, sha256_bytes
from gsx.storage.artifacts.draft import Draft
from tests.support.artifacts import contents


@pytest.fixture
def draft(tmp_path):
    draft = Draft(tmp_path / "draft")
    draft.prepare("code")
    return draft


class Writer:
    """Writes one file and counts its calls."""

    def __init__(self, data=b"bytes", stats=None):
        self.data, self.stats, self.calls = data, stats, 0

    def __call__(self, path):
        self.calls += 1
        path.write_bytes(self.data)
        return self.stats


class GroupWriter(Writer):
    """Writes a directory, as Zarr does."""

    def __call__(self, path):
        self.calls += 1
        (path / "array" / "c").mkdir(parents=True)
        (path / "zarr.json").write_bytes(b"{}")
        (path / "array" / "c" / "0").write_bytes(self.data)


def record_of(draft, name):
    return draft.root / "progress" / f"{sha256_bytes(name.encode())[:32]}.json"


def test_a_written_unit_is_stored_under_its_name(draft):
    unit = draft.write("data/x.bin", Writer(b"abc"), rows=7)
    assert contents(draft.content) == {"data/x.bin": b"abc"}
    (entry,) = unit.files.values()
    assert (entry.size, entry.rows) == (3, 7)
    assert entry.sha256 == sha256_bytes(b"abc")


def test_a_finished_unit_is_not_written_again(draft):
    writer = Writer()
    first = draft.write("x", writer)
    assert draft.write("x", writer) == first
    assert writer.calls == 1


def test_the_next_run_keeps_finished_units_and_their_statistics(draft):
    writer = Writer(stats={"graphs": 3})
    draft.write("x", writer)
    draft.prepare("code")
    assert draft.write("x", writer).stats == {"graphs": 3}
    assert writer.calls == 1


def test_repeated_crashes_keep_the_units_of_the_first_run(draft):
    writer = Writer()
    draft.write("x", writer)
    for _ in range(3):
        draft.prepare("code")
    draft.write("x", writer)
    assert writer.calls == 1


def flip(path):
    path.write_bytes(b"BYTES")


def truncate(path):
    path.write_bytes(b"byte")


def become_directory(path):
    path.unlink()
    path.mkdir()


def become_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("damage", [flip, truncate, os.unlink, become_directory, become_link])
@pytest.mark.parametrize("again", [True, False])
def test_a_unit_altered_on_disk_is_written_again(draft, damage, again):
    writer = Writer(b"bytes")
    draft.write("x", writer)
    damage(draft.content / "x")
    if again:
        draft.prepare("code")
    draft.write("x", writer)
    assert writer.calls == 2
    draft.seal()
    assert contents(draft.content) == {"x": b"bytes"}
    assert not (draft.content / "x").is_symlink()


def test_a_group_with_one_altered_file_is_written_again_as_a_whole(draft):
    writer = GroupWriter()
    draft.write("zarr/train", writer)
    (draft.content / "zarr/train/array/c/0").write_bytes(b"other")
    draft.write("zarr/train", writer)
    assert writer.calls == 2
    assert (draft.content / "zarr/train/array/c/0").read_bytes() == b"bytes"


def test_a_group_counts_its_rows_once(draft):
    unit = draft.write("zarr/train", GroupWriter(), rows=9)
    rows = {path: entry.rows for path, entry in unit.files.items()}
    assert rows == {"zarr/train/zarr.json": 9, "zarr/train/array/c/0": None}


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff", b'{"name": "x"}', b"[]"])
def test_a_damaged_record_means_that_the_unit_is_written_again(draft, garbage):
    writer = Writer()
    draft.write("x", writer)
    record_of(draft, "x").write_bytes(garbage)
    draft.prepare("code")
    draft.write("x", writer)
    assert writer.calls == 2


def test_a_record_of_another_unit_is_ignored(draft):
    writer = Writer()
    draft.write("y", Writer(b"other"))
    shutil.copy(record_of(draft, "y"), record_of(draft, "x"))
    draft.write("x", writer)
    assert writer.calls == 1


def test_a_record_that_points_outside_the_draft_is_ignored(draft, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    entry = {"size": 6, "sha256": sha256_bytes(b"secret"), "rows": None}
    files = {"../../secret": entry}
    record_of(draft, "x").write_bytes(readable_json({"name": "x", "files": files, "facts": {}}))
    assert draft.find_finished("x") is None
    assert draft.seal() == {}
    assert secret.exists()


def test_a_failed_write_leaves_nothing_in_the_content(draft):
    def fail(path):
        path.write_bytes(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        draft.write("x", fail)
    assert contents(draft.content) == {}
    assert draft.find_finished("x") is None


def test_the_next_run_removes_partially_written_files(draft):
    (draft.root / "scratch" / "half.123").write_bytes(b"half")
    (draft.content / "manifest.json").write_bytes(b"of a run that died before publishing")
    draft.prepare("code")
    assert contents(draft.root) == {"source": b"code"}


def test_a_stray_file_is_not_sealed(draft):
    draft.write("data/x", Writer())
    (draft.content / "data" / "stray").write_bytes(b"who wrote this?")
    (draft.content / ".nfs0001").write_bytes(b"")
    (draft.content / "empty" / "folder").mkdir(parents=True)
    assert list(draft.seal()) == ["data/x"]
    assert [path.name for path in sorted(draft.content.rglob("*"))] == ["data", "x"]


def test_a_unit_that_this_run_did_not_use_is_not_sealed(draft):
    draft.write("data/old-layout", Writer())
    draft.write("data/kept", Writer())
    draft.prepare("code")
    draft.write("data/kept", Writer())
    assert list(draft.seal()) == ["data/kept"]
    assert list(contents(draft.content)) == ["data/kept"]


def test_units_of_different_code_are_deleted(draft):
    writer = Writer()
    draft.write("x", writer)
    assert draft.prepare("other code") is True
    assert contents(draft.content) == {}
    draft.write("x", writer)
    assert writer.calls == 2


def test_a_new_draft_deletes_no_units(tmp_path):
    assert Draft(tmp_path / "new").prepare("code") is False


def test_a_draft_of_the_same_code_keeps_its_units(draft):
    draft.write("x", Writer())
    assert draft.prepare("code") is False


def test_a_unit_without_any_file_is_an_error(draft):
    with pytest.raises(ArtifactError, match="unit x was written without any file"):
        draft.write("x", lambda path: path.mkdir())
    with pytest.raises(ArtifactError, match="unit y was written without any file"):
        draft.write("y", lambda path: None)


def test_a_link_cannot_be_stored(draft, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")

    def link(path):
        path.mkdir()
        (path / "inner").symlink_to(tmp_path / "secret")

    with pytest.raises(ArtifactError, match="group/inner is not a regular file"):
        draft.write("group", link)
    with pytest.raises(ArtifactError, match="x is not a regular file; links cannot be stored"):
        draft.write("x", lambda path: path.symlink_to(tmp_path / "secret"))


@pytest.mark.parametrize("name", ["../x", "/x", ".x", "manifest.json", "a b", ""])
def test_a_unit_cannot_have_a_name_that_a_manifest_may_not_list(draft, name):
    writer = Writer()
    with pytest.raises(ArtifactError):
        draft.write(name, writer)
    assert writer.calls == 0


def test_a_file_inside_a_group_must_have_a_plain_name_as_well(draft):
    def write(path):
        path.mkdir()
        (path / ".zgroup").write_bytes(b"{}")

    with pytest.raises(ArtifactError, match=r"this stage lists the file 'group/\.zgroup'"):
        draft.write("group", write)


def test_units_with_similar_names_may_be_written_at_once(draft):
    def write(path):
        path.write_bytes(b"outer")
        draft.write("a-b/c", Writer(b"inner"))

    draft.write("a/b-c", write)
    assert contents(draft.content) == {"a/b-c": b"outer", "a-b/c": b"inner"}


def test_a_name_as_long_as_a_manifest_allows_can_be_written(draft):
    name = "/".join(["x" * 120] * 7)
    draft.write(name, Writer())
    assert list(draft.seal()) == [name]


def test_units_are_listed_by_name(draft):
    for name in ("c", "a", "b/x"):
        draft.write(name, Writer())
    assert [unit.name for unit in draft.units()] == ["a", "b/x", "c"]


def test_arrays_are_written_as_contiguous_safetensors(draft):
    arrays = {"a": np.arange(6, dtype=np.int32).reshape(2, 3).T, "b": np.zeros(0, np.float32)}
    draft.write_arrays("x.safetensors", arrays)
    stored = load((draft.content / "x.safetensors").read_bytes())
    assert {name: values.tolist() for name, values in stored.items()} == {
        "a": [[0, 3], [1, 4], [2, 5]],
        "b": [],
    }
    assert [stored[name].dtype for name in ("a", "b")] == [np.int32, np.float32]
