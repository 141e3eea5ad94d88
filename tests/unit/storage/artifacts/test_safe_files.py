"""Files below a directory: links are not followed, and only regular files are opened."""

import os
import re
import socket
import time
from pathlib import Path

import pytest

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.safe_files import (
    FileStamp,
    make_directory,
    make_read_only,
    open_regular,
    regular_sizes,
    remove_beneath,
    remove_links,
    rename_beneath,
    require_directory,
)

ROOT = Path(__file__).parents[4]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "data").mkdir(parents=True)
    (folder / "data/a.bin").write_bytes(b"inside")
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


def read(root, name):
    with open_regular(root, name) as stream:
        return stream.read()


def test_a_regular_file_is_read(root):
    assert read(root, "data/a.bin") == b"inside"


def test_the_root_may_be_a_link(root):
    link = root.with_name("link")
    link.symlink_to(root)
    assert read(link, "data/a.bin") == b"inside"


@pytest.mark.parametrize("name", ["../outside/secret", "data/../../outside/secret", "data//a.bin"])
def test_a_path_with_empty_or_parent_components_is_refused(root, outside, name):
    with pytest.raises(ArtifactError, match="is not a path inside"):
        read(root, name)


def test_a_linked_file_is_refused(root, outside):
    (root / "data/link").symlink_to(outside / "secret")
    with pytest.raises(ArtifactError, match="is a symbolic link"):
        read(root, "data/link")


def test_a_file_behind_a_linked_folder_is_refused(root, outside):
    (root / "linked").symlink_to(outside)
    with pytest.raises(ArtifactError, match="is behind a symbolic link"):
        read(root, "linked/secret")


def test_a_fifo_is_refused_without_waiting(root):
    os.mkfifo(root / "data/fifo")
    started = time.monotonic()
    with pytest.raises(ArtifactError, match="is not a file"):
        read(root, "data/fifo")
    assert time.monotonic() - started < 1


def test_a_socket_and_a_folder_are_refused(root, monkeypatch):
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in ("socket", "data"):
        with pytest.raises(ArtifactError, match="is not a file"):
            read(root, name)


def test_a_missing_file_is_reported_with_its_path(root):
    with pytest.raises(FileNotFoundError, match=re.escape(str(root / "data/gone"))):
        read(root, "data/gone")


def test_links_and_special_files_have_size_minus_one(root, outside):
    (root / "data/link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "fifo")
    sizes = {"data/a.bin": 6, "data/link": -1, "folder": -1, "fifo": -1}
    assert regular_sizes(root) == sizes


def test_removal_removes_links_and_not_their_targets(root, outside):
    (root / "folder").symlink_to(outside)
    (root / "data/link").symlink_to(outside / "secret")
    remove_beneath(root, "folder")
    remove_beneath(root, "data")
    assert list(root.iterdir()) == []
    assert (outside / "secret").read_bytes() == b"secret"
    remove_beneath(root, "gone")  # removed by another process


@pytest.mark.parametrize(
    "act",
    [
        lambda root: remove_beneath(root, "folder/secret"),
        lambda root: rename_beneath(root, "folder/secret", "data/b"),
        lambda root: rename_beneath(root, "data/a.bin", "folder/a"),
        lambda root: make_directory(root, "folder/new"),
        lambda root: make_read_only(root, "folder/secret"),
        lambda root: require_directory(root, "folder"),
    ],
)
def test_nothing_behind_a_link_is_changed(root, outside, act):
    (root / "folder").symlink_to(outside)
    before = (outside / "secret").stat()
    with pytest.raises((ArtifactError, FileExistsError)):
        act(root)
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").stat() == before


def test_a_folder_is_not_created_in_place_of_a_link(root, outside):
    (root / "new").symlink_to(outside)
    with pytest.raises(FileExistsError):
        make_directory(root, "new")
    (root / "new").unlink()
    assert make_directory(root, "new/inner").is_dir()
    assert make_directory(root, "new/inner").is_dir()


def test_links_are_removed_from_a_draft(root, outside):
    (root / "data/link").symlink_to(outside)
    os.mkfifo(root / "fifo")
    remove_links(root)
    assert regular_sizes(root) == {"data/a.bin": 6}


def test_folders_nested_too_deeply_are_refused(root):
    (root / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(ArtifactError, match="64 levels of directories"):
        regular_sizes(root)


def test_a_missing_folder_is_not_an_error(root):
    assert require_directory(root, "gone") is False
    (root / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="is not a directory"):
        require_directory(root, "file")


def test_a_file_written_a_moment_ago_is_recent(root):
    path = root / "data/a.bin"
    path.write_bytes(b"again.")
    assert FileStamp.of(path.stat()).is_recent()
    time.sleep(0.05)
    assert not FileStamp.of(path.stat()).is_recent()


OWN_FILES = {
    "storage/artifacts/atomic_files.py": "writes",
    "storage/artifacts/digest.py": "raw files and drafts",
    "storage/artifacts/draft.py": "drafts, without links since they were opened",
    "storage/artifacts/in_use.py": "locks",
    "storage/artifacts/run_record.py": "process memory",
    "storage/artifacts/safe_files.py": "the one way to open files of artifacts",
    "storage/corpora/hot_cache.py": "the user's cache",
    "storage/corpora/link_shards.py": "new files of a draft",
    "storage/doctor.py": "probes",
    "storage/sharing/atomic_directory.py": "manifests above an export target",
    "storage/sharing/bundle.py": "new files of an export",
    "storage/sharing/copy_out.py": "new files of a copy",
    "storage/sharing/csv_file.py": "new files of an export",
    "storage/sharing/push_pull.py": "new files of a transfer",
    "storage/sharing/signing.py": "keys",
}
"""Modules that open files by path, and which files: never those of a published artifact."""
OPENS = re.compile(
    r"(?<![\w.])(?<!def )open\(|\.open\(\"|\.read_bytes\(\)|\.read_text\("
    r"|\.write_bytes\(data|os\.open\(|os\.link\(|copyfile\("
)
BY_PATH = re.compile(
    r"\b(safe_open|memmap|memory_map|ParquetFile|pq\.read_table|load_file|fromfile|np\.load|torch\.load"
    r"|json\.load|zarr\.open\w*|fs\.open)\("
)
"""Functions of libraries that open a file by its path."""
LIBRARY_CALLS = {
    "cli/demo.py": "an example for users, which runs in a process of its own",
    "stages/export/formats/good.py": "text of a loader for other libraries",
    "stages/export/formats/good_nodes.py": "text of a loader for other libraries",
    "stages/export/formats/ogb.py": "text of a loader for other libraries",
    "stages/export/formats/pyg.py": "text of a loader for other libraries",
    "stages/export/templates/load_pyg.py": "a loader of an export, which verifies what it opens",
    "stages/nn/minilm.py": "downloaded weights, whose hash is verified",
    "stages/train/checkpoint.py": "drafts, without links since they were opened",
    "storage/artifacts/location.py": "files of remote stores",
    "storage/corpora/count_distinct.py": "temporary files",
    "storage/corpora/hot_cache.py": "an open file of the user's cache",
    "storage/corpora/parquet.py": "an open file",
    "storage/corpora/zarr_format.py": "a Zarr store that opens files through locations",
}
"""Modules that call these functions, and for which files: never a path in a published artifact."""


def test_only_these_modules_of_the_storage_layer_open_files_by_path():
    opening = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "storage").rglob("*.py")
        if OPENS.search(path.read_text())
    }
    assert opening == OWN_FILES.keys()


def test_only_these_modules_let_libraries_open_files():
    opening = {
        path.relative_to(ROOT).as_posix()
        for folder in ("gsx", "cli", "pipeline", "stages", "storage")
        for path in (ROOT / folder).rglob("*.py")
        if BY_PATH.search(path.read_text())
    }
    assert opening == LIBRARY_CALLS.keys()


@pytest.mark.parametrize(
    "code",
    [
        'with open(path, "rb") as stream:',
        "data = path.read_bytes()",
        'text = path.read_text(encoding="utf-8")',
        "descriptor = os.open(path, os.O_RDONLY)",
        "table = pq.read_table(path)",
        "with safe_open(path) as file:",
        "values = np.memmap(path)",
    ],
)
def test_the_search_finds_code_that_opens_files(code):
    assert OPENS.search(code) or BY_PATH.search(code)


def test_stages_and_commands_open_artifact_files_through_locations():
    for folder in ("cli", "pipeline", "stages"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not re.search(r"location\.(local|root)\b.*(/|open|read)", path.read_text()), path
