"""Stores that are none, that are full, or that may not be read: said in words, nothing harmed."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from gsx.errors import StoreError
from gsx.storage.artifacts.atomic_files import translate_os_errors
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import blob, contents, gsx

# --- what the disk says, in words -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "x"), "no space left on here. Lost.\nFree some space (`gsx gc`"),
        (OSError(errno.EDQUOT, "x"), "no space left on here. Lost.\n"),
        (OSError("IOError: No space left on device"), "no space left on here. Lost.\n"),
        (OSError(errno.EROFS, "x"), "cannot write to here: Read-only file system. Lost.\n"),
        (OSError(errno.EACCES, "x"), "cannot write to here: Permission denied. Lost.\n"),
        (OSError(errno.EIO, "x", "f"), "cannot write to here: Input/output error (f). Lost.\n"),
    ],
)
def test_what_a_disk_refuses_is_explained(error, text):
    with pytest.raises(StoreError) as caught, translate_os_errors("here", consequence="Lost."):
        raise error
    assert str(caught.value).startswith(text)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "x"), OSError("odd"), ValueError("x")])
def test_what_nobody_expected_stays_a_bug(error):
    with pytest.raises(type(error)) as caught, translate_os_errors("here", consequence="Lost."):
        raise error
    assert caught.value is error


# --- stores that are not stores -------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("ls",), ("verify", "--all"), ("gc",), ("show", "abcd"), ("prepare", "motif-size")]
)
def test_a_store_that_is_a_file_is_named(tmp_path, words):
    (tmp_path / "store").write_text("not a store")
    said = gsx(*words, "--store", tmp_path / "store")
    assert said.code == 3
    assert said.err == (
        f"Error: {tmp_path}/store is a file, not a store.\n"
        "Pass a directory with `--store DIR` or GSX_STORE.\n"
    )
    assert (tmp_path / "store").read_text() == "not a store"


@pytest.mark.parametrize("words", [("ls",), ("prepare", "motif-size")])
def test_a_store_inside_a_file_is_named(tmp_path, words):
    (tmp_path / "file").write_text("")
    said = gsx(*words, "--store", tmp_path / "file" / "store")
    assert said.code == 3
    assert f"cannot read the store {tmp_path}/file/store: Not a directory" in said.err


def test_a_store_whose_name_is_too_long_is_named(tmp_path):
    said = gsx("prepare", "motif-size", "--store", tmp_path / ("x" * 300))
    assert said.code == 3
    assert "File name too long" in said.err


def test_ls_of_a_store_that_is_not_there_says_how_to_begin(tmp_path):
    said = gsx("ls", "--store", tmp_path / "none")
    assert said.code == 0
    assert said.err == f"No artifacts in {tmp_path}/none yet; `gsx prepare` makes one.\n"
    assert json.loads(gsx("ls", "--store", tmp_path / "none", "--json").out) == {
        "artifacts": [],
        "damaged": [],
    }
    assert not (tmp_path / "none").exists()


def test_a_variable_that_points_to_a_folder_of_other_things_harms_none_of_them(
    tmp_path, monkeypatch
):
    home = tmp_path / "home"
    (home / "corpus" / "letters").mkdir(parents=True)
    (home / "corpus" / "letters" / "manifest.json").write_text("not ours")
    (home / ".drafts").mkdir()
    (home / ".drafts" / "mail.txt").write_text("dear")
    before = contents(home)
    monkeypatch.setenv("GSX_STORE", str(home))
    assert gsx("ls").out == "KIND  KEY  NAME  COUNT  SIZE  STAGE\n"
    assert gsx("prepare", "motif-size", "--num-graphs", 30).code == 0
    after = contents(home)
    assert {path: after[path] for path in before} == before


def test_a_variable_that_points_nowhere_known_is_named(monkeypatch):
    monkeypatch.setenv("GSX_STORE", "carrierpigeon://roof")
    said = gsx("ls")
    assert said.code == 3
    assert (
        said.err == "Error: cannot open carrierpigeon://roof: Protocol not known: carrierpigeon\n"
    )


def test_a_cache_that_is_a_file_does_not_stop_a_build(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "cache"))
    assert gsx("prepare", "motif-size", "--num-graphs", 30, "--store", tmp_path / "s").code == 0
    assert gsx("verify", "--all", "--store", tmp_path / "s").code == 0


# --- without permission ---------------------------------------------------------------------------


@pytest.fixture
def common():
    """A folder that every user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def ordinary_user():
    """Give up the powers of root for a moment, so that permissions mean something."""
    powerful = os.geteuid() == 0
    if powerful:
        os.seteuid(65534)
    try:
        yield
    finally:
        if powerful:
            os.seteuid(0)


def as_ordinary_user(*words):
    gsx(*words)  # import everything first: the interpreter may lie where only root may look
    with ordinary_user():
        return gsx(*words)


def test_a_manifest_that_may_not_be_read_is_named_and_the_others_are_listed(common):
    store = Store.at(common)
    good, bad = blob(store), blob(store, config={"size": 2})
    (bad.location.local / "manifest.json").chmod(0)
    said = as_ordinary_user("ls", "--store", common)
    assert said.code == 3
    assert good.key[:12] in said.out
    assert f"{bad.location.url}/manifest.json cannot be read: Permission denied" in said.err


def test_a_file_that_may_not_be_read_is_named(common):
    made = blob(Store.at(common))
    (made.location.local / "data/a.bin").chmod(0)
    said = as_ordinary_user("verify", "--all", "--store", common)
    assert said.code == 3
    assert "data/a.bin cannot be read: Permission denied" in said.out


def test_a_store_that_may_not_be_read_is_not_called_empty(common):
    blob(Store.at(common / "store"))
    (common / "store").chmod(0)
    said = as_ordinary_user("ls", "--store", common / "store")
    assert said.code == 3
    assert said.err == f"Error: cannot read the store {common}/store: Permission denied\n"


def test_a_store_that_may_not_be_written_is_named(common):
    words = ("prepare", "motif-size", "--num-graphs", 30, "--store", common / "store")
    (common / "store").mkdir()
    (common / "store").chmod(0o555)
    gsx(*words[:-1], common / "warm-up")
    with ordinary_user():
        said = gsx(*words)
    assert said.code == 3
    assert said.err == (
        f"Error: cannot write to {common}/store: Permission denied. Finished shards are kept; "
        "nothing was published.\n"
        "Choose another location with `--store DIR`, or get write access.\n"
    )
