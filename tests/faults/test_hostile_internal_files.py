"""Internal files of a store from an attacker: studies, logs, drafts and checkpoints."""

import json
import os

import pytest

from gsx.errors import RecipeError, StoreError
from gsx.limits import JSON_BYTES
from gsx.pipeline.tuning.search_space import SearchSpace, read_search_space
from gsx.pipeline.tuning.study import Study, study_lock
from gsx.storage.artifacts.digest import sha256_bytes, sha256_file
from gsx.storage.artifacts.event_log import EventLog
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import blob, contents, gsx, identity, motif
from tests.support.run_stages import run_stage, stop_training, unchanged, write_small_corpus
from tests.support.tuning import SPLIT_SIZES

RECORD = f"{sha256_bytes(b'data/a.bin')[:32]}.json"
SPACE = SearchSpace({"train.width": (4, 8)})


@pytest.fixture
def outside(tmp_path):
    """Return a folder with files of the user, and fail if any of them changes."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "empty").write_bytes(b"")
    (folder / "thesis.txt").write_text("do not lose")
    before = contents(folder)
    yield folder
    assert contents(folder) == before


def open_study(path):
    return Study(path, SPACE, seed=0, larger_is_better=True)


def test_a_study_is_not_written_behind_a_linked_folder(tmp_path, outside):
    (tmp_path / "store").mkdir()
    (tmp_path / "store/.studies").symlink_to(outside)
    with pytest.raises(FileExistsError), study_lock(tmp_path / "store/.studies/a.journal"):
        pass
    with pytest.raises(StoreError, match="behind a symbolic link"):
        open_study(tmp_path / "store/.studies/a.journal")


def test_gsx_tune_reports_a_linked_folder_of_studies(tmp_path, outside):
    store = tmp_path / "store"
    key = motif(Store.at(store)).key
    (store / ".studies").symlink_to(outside)
    result = gsx("tune", key, "--trials", 1, "--epochs", 1, "--store", store)
    assert (result.code, "Traceback" in result.err) == (3, False)


@pytest.mark.parametrize("name", ["empty", "thesis.txt", "new"])
def test_a_linked_study_is_refused(tmp_path, outside, name):
    path = tmp_path / "store/.studies/a.journal"
    path.parent.mkdir(parents=True)
    path.symlink_to(outside / name)
    with pytest.raises(StoreError, match="symbolic link"):
        open_study(path)


def test_a_study_that_is_no_file_is_refused_without_waiting(tmp_path):
    path = tmp_path / ".studies/a.journal"
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a file"):
        open_study(path)


def test_a_large_study_is_refused(tmp_path, monkeypatch):
    path = tmp_path / ".studies/a.journal"
    path.parent.mkdir()
    path.write_bytes(b"x" * 101)
    monkeypatch.setenv(JSON_BYTES.variable, "100")
    with pytest.raises(StoreError, match=JSON_BYTES.variable):
        open_study(path)


@pytest.mark.parametrize(
    "text", ["f = " + "[" * 200_000, "f = " + "1" * 5000, "f = 1" + "0" * 5000, "\x00"]
)
def test_a_search_space_that_is_not_toml_is_refused(tmp_path, text):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match="is not TOML"):
        read_search_space(path)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_log_is_not_written_into_other_files(tmp_path, outside, kind):
    log = EventLog(tmp_path / "store/.runs", "a" * 64)
    log.path.parent.mkdir(parents=True)
    if kind == "link":
        log.path.symlink_to(outside / "thesis.txt")
    else:
        os.mkfifo(log.path)
    log.write("start")
    assert not log.path.is_file() or log.path.is_symlink()


@pytest.mark.parametrize("kind", ["deep", "fifo", "folder"])
@pytest.mark.parametrize("name", [f"progress/{RECORD}", f"earlier/{RECORD}", "source"])
def test_strange_records_of_a_draft_are_ignored(tmp_path, name, kind):
    store = Store.at(tmp_path / "store")
    path = store.location.local / ".drafts" / identity().key / name
    path.parent.mkdir(parents=True)
    if name != "source":
        path.parent.with_name("source").write_bytes(b"")
    if kind == "deep":
        record = b'{"name": "a", "files": {}, "facts": {"a": ' + b"[" * 100_000
        path.write_bytes(record)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert contents(blob(store).location.local)["data/a.bin"] == b"first"


@pytest.mark.parametrize(
    "facts",
    [
        "[" * 100_000,
        "{}",
        '{"curves": 3, "kept": {}, "averaged_steps": 0}',
        '{"curves": [], "kept": {"last": "x"}, "averaged_steps": 0}',
        '{"curves": [], "kept": {"last": 0}, "averaged_steps": 0}',
        None,
    ],
)
def test_a_strange_checkpoint_is_reported(tmp_path, monkeypatch, facts):
    from safetensors.numpy import load_file, save_file

    corpus = write_small_corpus(tmp_path, unchanged, sizes=SPLIT_SIZES)
    options = {"source": "prepare", "epochs": 2, "width": 4, "layers": 2}
    with monkeypatch.context() as patch:
        stop_training(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            run_stage(tmp_path, "train", options, {"prepare": corpus})
    (path,) = tmp_path.rglob("checkpoint*.safetensors")
    arrays = {} if facts is None or "last" in facts else load_file(path)
    save_file(arrays, path, metadata=None if facts is None else {"facts": facts})
    for record in path.parents[1].glob("*/*.json"):
        unit = json.loads(record.read_text())
        if unit["name"] == path.name:
            entry = {"size": path.stat().st_size, "sha256": sha256_file(path)}
            record.write_text(json.dumps({**unit, "files": {path.name: entry}}))
    with pytest.raises(StoreError, match="is not a checkpoint of this training run"):
        run_stage(tmp_path, "train", options, {"prepare": corpus})
