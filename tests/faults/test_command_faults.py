"""Full and read-only disks, and errors of the system, during exports, tuning and downloads."""

import errno
import json
import os
from pathlib import Path

import pytest
from filelock import FileLock
from optuna.storages.journal import JournalFileBackend

from gsx.errors import StoreError
from gsx.stages.export.formats import EXPORT_FORMATS
from gsx.stages.prepare.download import fetch
from gsx.stages.train.result_file import write_result
from gsx.storage.artifacts.location import Location
from tests.support.artifacts import gsx
from tests.support.smiles import SMILES
from tests.support.tuning import SMALL_SPACE, write_tuning_corpus

CODES = [errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSPC,
         errno.EROFS]  # fmt: skip


def require_clear_error(result, *texts):
    assert (result.code, result.out) == (3, ""), result
    assert result.err.startswith("Error: ")
    assert "Traceback" not in result.err
    for text in texts:
        assert text in result.err


def failing(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code), "a-file")

    return fail


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules")
    rows = [f"{text},{int('N' in text)}" for text in SMILES[::3]]
    (folder / "assay.csv").write_text("\n".join(["smiles,active", *rows]) + "\n")
    result = gsx("prepare", "--smiles", folder / "assay.csv", "--target", "active", "--domain",
                 "size", "--store", folder / "store", "--json")  # fmt: skip
    assert result.code == 0, result.err
    return folder / "store", json.loads(result.out)["key"]


@pytest.mark.parametrize("name", [export_format.name for export_format in EXPORT_FORMATS])
def test_an_export_to_a_full_disk_is_reported_and_leaves_nothing(molecules, ram, name):
    folder, remount = ram
    remount("size=16k")
    store, key = molecules
    result = gsx("export", key, folder / "out", "--to", name, "--store", store)
    require_clear_error(result, f"no space left on {folder}/out. Nothing was written there.")
    assert list(folder.iterdir()) == []
    remount("size=100m")
    assert gsx("export", key, folder / "out", "--to", name, "--store", store).code == 0


@pytest.mark.parametrize("code", CODES)
def test_an_export_reports_errors_of_the_system(molecules, tmp_path, monkeypatch, code):
    store, key = molecules
    monkeypatch.setattr(Path, "rename", failing(code))
    result = gsx("export", key, tmp_path / "out", "--store", store)
    require_clear_error(result)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def tuned(tmp_path):
    corpus = write_tuning_corpus(tmp_path / "store")
    (tmp_path / "space.toml").write_text(SMALL_SPACE)
    return ("tune", corpus.key, "--space", tmp_path / "space.toml", "--trials", 1, "--epochs", 1,
            "--store", tmp_path / "store")  # fmt: skip


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("owner", "name"), [(FileLock, "acquire"), (JournalFileBackend, "append_logs"), (Path, "mkdir")]
)
def test_tuning_reports_errors_of_the_system(tuned, monkeypatch, owner, name, code):
    monkeypatch.setattr(owner, name, failing(code))
    require_clear_error(gsx(*tuned))


def test_tuning_in_a_read_only_store_is_reported(ram):
    folder, remount = ram
    corpus = write_tuning_corpus(folder / "store")
    (folder / "space.toml").write_text(SMALL_SPACE)
    remount("ro")
    result = gsx("tune", corpus.key, "--space", folder / "space.toml", "--trials", 1,
                 "--store", folder / "store")  # fmt: skip
    require_clear_error(result, "Read-only file system. Finished trials are kept.")


@pytest.mark.parametrize("code", CODES)
def test_downloads_report_errors_of_the_system(tmp_path, monkeypatch, code):
    monkeypatch.setattr(fetch, "download", failing(code))
    require_clear_error(gsx("fetch", "hiv-scaffold", "--raw", tmp_path, "--quiet"))


def test_downloads_into_a_read_only_folder_are_reported(ram):
    folder, remount = ram
    remount("ro")
    result = gsx("fetch", "hiv-scaffold", "--raw", folder / "raw", "--quiet")
    require_clear_error(result, "Read-only file system. Finished files are kept.", "`--raw DIR`")


class Built:
    """A trained model of a corpus with a hostile name."""

    reused, seconds = False, 1.0

    def __init__(self, name, folder):
        self.artifact, self.location = self, Location.at(folder)
        (folder / "curves.json").write_text('[{"epoch": 0, "loss": 1, "ood_val": 1}]')
        parent = type("Parent", (), {"key": "0" * 64})
        row = {"ood_val": 1.0, "ood_test": 1.0}
        self.manifest = type("Manifest", (), {
            "kind": "model",
            "summary": {"name": name, "quality": {"metric": "accuracy",
                                                  "selection": {"last": row}}},
            "config": {"seed": 0, "epochs": 1}, "parents": (parent,), "key": "1" * 64,
        })  # fmt: skip


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "..", "a/b", "con", "\x1b"])
def test_result_files_stay_inside_of_their_folder(tmp_path, name):
    path = write_result(tmp_path / "results", "erm", "quick", Built(name, tmp_path), "gsx train")
    assert path == tmp_path / "results" / "corpus-000000000000" / "erm-0.json"
    assert json.loads(path.read_text())["dataset"] == name


def test_result_files_report_errors_of_the_system(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(StoreError, match="--results DIR"):
        write_result(
            tmp_path / "results", "erm", "quick", Built("motif-size", tmp_path), "gsx train"
        )
