"""Invalid, full and unreadable stores are reported, and nothing is damaged."""

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

# --- error translation ---------------------------------------------------------------------------


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
def test_os_errors_are_translated(error, text):
    with pytest.raises(StoreError) as caught, translate_os_errors("here", consequence="Lost."):
        raise error
    assert str(caught.value).startswith(text)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "x"), OSError("odd")])
def test_unusual_errors_of_the_system_are_translated(error):
    message = r"^cannot write to here: .*\. Lost\."
    with (
        pytest.raises(StoreError, match=message),
        translate_os_errors("here", consequence="Lost."),
    ):
        raise error


def test_other_errors_keep_their_traceback():
    error = ValueError("x")
    with pytest.raises(ValueError) as caught, translate_os_errors("here", consequence="Lost."):
        raise error
    assert caught.value is error


# --- invalid stores -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("ls",), ("verify", "--all"), ("gc",), ("show", "abcd"), ("prepare", "motif-size")]
)
def test_a_store_that_is_a_file_is_named(tmp_path, words):
    (tmp_path / "store").write_text("not a store")
    result = gsx(*words, "--store", tmp_path / "store")
    assert result.code == 3
    assert result.err == (
        f"Error: {tmp_path}/store is a file, not a store.\n"
        "  Pass a directory with `--store DIR` or GSX_STORE.\n"
    )
    assert (tmp_path / "store").read_text() == "not a store"


@pytest.mark.parametrize("words", [("ls",), ("prepare", "motif-size")])
def test_a_store_inside_a_file_is_named(tmp_path, words):
    (tmp_path / "file").write_text("")
    result = gsx(*words, "--store", tmp_path / "file" / "store")
    assert result.code == 3
    assert f"cannot read the store {tmp_path}/file/store: Not a directory" in result.err


def test_a_store_with_a_too_long_name_is_reported(tmp_path):
    result = gsx("prepare", "motif-size", "--store", tmp_path / ("x" * 300))
    assert result.code == 3
    assert "File name too long" in result.err


def test_ls_of_a_missing_store_gives_advice(tmp_path):
    result = gsx("ls", "--store", tmp_path / "none")
    assert result.code == 0
    assert result.err == f"No artifacts in {tmp_path}/none; `gsx prepare` builds one.\n"
    assert json.loads(gsx("ls", "--store", tmp_path / "none", "--json").out) == {
        "artifacts": [],
        "damaged": [],
    }
    assert not (tmp_path / "none").exists()


def test_a_store_variable_with_other_files_leaves_them_unchanged(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "corpus" / "letters").mkdir(parents=True)
    (home / "corpus" / "letters" / "manifest.json").write_text("not ours")
    (home / ".drafts").mkdir()
    (home / ".drafts" / "mail.txt").write_text("dear")
    before = contents(home)
    monkeypatch.setenv("GSX_STORE", str(home))
    assert gsx("ls").out == "KIND  KEY  DATE  NAME  OPTIONS\n"
    assert gsx("prepare", "motif-size", "--num-graphs", 30).code == 0
    after = contents(home)
    assert {path: after[path] for path in before} == before


def test_an_unusable_store_variable_is_reported(monkeypatch):
    monkeypatch.setenv("GSX_STORE", "carrierpigeon://roof")
    result = gsx("ls")
    assert result.code == 3
    assert (
        result.err == "Error: cannot open carrierpigeon://roof: Protocol not known: carrierpigeon\n"
    )


def test_a_cache_that_is_a_file_does_not_stop_a_build(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "cache"))
    assert gsx("prepare", "motif-size", "--num-graphs", 30, "--store", tmp_path / "s").code == 0
    assert gsx("verify", "--all", "--store", tmp_path / "s").code == 0


# --- missing permissions --------------------------------------------------------------------------


@pytest.fixture
def shared_folder():
    """Return a folder that every user may enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def ordinary_user():
    """Drop root privileges in the block, so that permissions take effect."""
    powerful = os.geteuid() == 0
    if powerful:
        os.seteuid(65534)
    try:
        yield
    finally:
        if powerful:
            os.seteuid(0)


def as_ordinary_user(*words):
    gsx(
        *words
    )  # import everything first: the interpreter may be in a folder that only root can read
    with ordinary_user():
        return gsx(*words)


def test_an_unreadable_manifest_is_reported_and_the_others_are_listed(shared_folder):
    store = Store.at(shared_folder)
    good, bad = blob(store), blob(store, config={"size": 2})
    (bad.location.local / "manifest.json").chmod(0)
    result = as_ordinary_user("ls", "--store", shared_folder)
    assert result.code == 3
    assert good.key[:12] in result.out
    assert f"{bad.location.url}/manifest.json cannot be read: Permission denied" in result.err


def test_a_file_that_may_not_be_read_is_named(shared_folder):
    artifact = blob(Store.at(shared_folder))
    (artifact.location.local / "data/a.bin").chmod(0)
    result = as_ordinary_user("verify", "--all", "--store", shared_folder)
    assert result.code == 3
    assert "data/a.bin cannot be read: Permission denied" in result.out


def test_an_unreadable_store_is_not_reported_as_empty(shared_folder):
    blob(Store.at(shared_folder / "store"))
    (shared_folder / "store").chmod(0)
    result = as_ordinary_user("ls", "--store", shared_folder / "store")
    assert result.code == 3
    assert result.err == f"Error: cannot read the store {shared_folder}/store: Permission denied\n"


def test_a_read_only_store_is_reported(shared_folder):
    words = ("prepare", "motif-size", "--num-graphs", 30, "--store", shared_folder / "store")
    (shared_folder / "store").mkdir()
    (shared_folder / "store").chmod(0o555)
    gsx(*words[:-1], shared_folder / "warm-up")
    with ordinary_user():
        result = gsx(*words)
    assert result.code == 3
    assert result.err == (
        f"Error: cannot write to {shared_folder}/store: Permission denied. Finished shards are "
        "kept; nothing was published.\n"
        "  Choose another location with `--store DIR`, or get write access.\n"
    )
