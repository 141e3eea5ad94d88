"""Result files and published scores of an unknown author: typed values or a clear error."""

import json
import os
from pathlib import Path

import pytest

from gsx.errors import UsageError
from gsx.limits import JSON_BYTES
from gsx.stages.train.result_documents import read_result_file, require_fields
from gsx.stages.train.results_table import read_published, read_results
from gsx.stages.train.unseal import unseal_results

DOCUMENT = {
    "dataset": "motif-size",
    "method": "erm",
    "seed": 0,
    "metric": "accuracy",
    "ood_test": 50.0,
    "selection": "last",
    "model_key": "a" * 64,
    "corpus_key": "b" * 64,
    "scores": {"last": {"ood_val": 1.0, "epoch": 3}},
    "command": "gsx train",
}
UNSEALED = {"time": "2026-01-01", "runs": 1, "models": "c" * 64}


def write(folder, **changes):
    path = folder / "erm-0.json"
    path.write_text(json.dumps({**DOCUMENT, **changes}))
    return path


def test_a_result_file_is_returned_with_all_fields(tmp_path):
    assert read_result_file(write(tmp_path)) == DOCUMENT
    (tmp_path / "other.json").write_text("[1]")
    assert read_result_file(tmp_path / "other.json") is None


def test_all_stored_results_are_read(pytestconfig):
    folder = pytestconfig.rootpath / "results"
    assert len(read_results(folder)[0]) > 100


@pytest.mark.parametrize("name", ["dataset", "method", "seed", "metric", "ood_test"])
@pytest.mark.parametrize("value", [[1], {"a": 1}, float("nan"), float("inf"), 10**400, True, ""])
def test_a_field_of_another_type_is_refused(tmp_path, name, value):
    with pytest.raises(UsageError, match="is not a result file"):
        read_result_file(write(tmp_path, **{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_key", "http://localhost/model"),
        ("model_key", "../../store/model/x"),
        ("corpus_key", f"{'b' * 64}\n"),
        ("corpus_key", 5),
        ("selection", "../weights"),
        ("metric", "unknown"),
        ("seed", 1 << 60),
        ("epochs", "many"),
        ("scores", {"last": [1]}),
        ("scores", {"last": {"ood_val": float("nan")}}),
        ("sealed", "yes"),
        ("unsealed", 3),
        ("unsealed", {**UNSEALED, "time": 5}),
        ("dataset", "x" * 5000),
    ],
)
def test_an_optional_field_of_another_type_is_refused(tmp_path, name, value):
    with pytest.raises(UsageError, match=f"is not a result file.*{name}"):
        read_result_file(write(tmp_path, **{name: value}))


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b'{"a": ' + b"1" * 6000 + b"}", b"\xff", b"{", b""]
)
def test_what_is_not_json_is_refused(tmp_path, data):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="invalid JSON"):
        read_result_file(path)


def test_special_and_large_files_are_refused_without_waiting(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(UsageError, match="not a regular file"):
        read_result_file(tmp_path / "a.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match=r"not a regular file|directory"):
        read_result_file(tmp_path / "folder.json")
    monkeypatch.setenv(JSON_BYTES.variable, "100")
    with pytest.raises(UsageError, match=JSON_BYTES.variable):
        read_result_file(write(tmp_path))


def test_missing_fields_are_named():
    with pytest.raises(UsageError, match=r"x\.json has no `model_key`"):
        require_fields(Path("x.json"), {}, "model_key")


@pytest.mark.parametrize("name", ["model_key", "corpus_key", "selection", "scores"])
def test_sealed_results_need_their_model(tmp_path, name):
    path = write(tmp_path, sealed=True)
    document = json.loads(path.read_text())
    del document[name]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"has no `{name}`"):
        unseal_results(tmp_path, lambda key, kind: pytest.fail("opened"), "now")


def test_results_behind_links_are_not_unsealed(tmp_path):
    for name in ("mine", "received"):
        (tmp_path / name).mkdir()
    path = write(tmp_path / "mine", sealed=True)
    (tmp_path / "received/motif-size").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="behind a symbolic link"):
        unseal_results(tmp_path / "received", lambda key, kind: pytest.fail("opened"), "now")
    assert json.loads(path.read_text())["sealed"] is True


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("method,dataset,mean,std\nerm,m,1,2\n", "lacks one of split"),
        ("split,method,dataset,mean,std\nood,erm,m,much,2\n", "not a number"),
        ("split,method,dataset,mean,std\nood,erm,m,nan,2\n", "not a number"),
        ("split,method,dataset,mean,std\nood,erm,m\n", "not a number"),
        ("split,method,dataset,mean,std\nood,,m,1,2\n", "lacks one of"),
        ("split,method,dataset,mean,std\nood," + "x" * 200_000 + ",m,1,2\n", "field"),
        ("\ud800", "codec"),
    ],
)
def test_published_scores_that_are_none_are_refused(tmp_path, text, what):
    path = tmp_path / "published.csv"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(UsageError, match=f"not a table of published scores.*{what}"):
        read_published(path)
