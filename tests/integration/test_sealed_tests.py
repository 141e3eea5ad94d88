"""Sealed test predictions: no trace of test labels before `gsx unseal`, the same scores after."""

import json

import numpy as np
import pytest

from gsx.errors import ArtifactError, UsageError
from gsx.schema import SPLITS
from gsx.stages.train.unseal import unseal_results
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx
from tests.support.run_stages import run_recipe, run_stage, unchanged, write_small_corpus

SIZES = {"train": 180, "id_val": 30, "id_test": 30, "ood_val": 30, "ood_test": 30}
NETWORK = {"width": 16, "epochs": 2, "batch_size": 32}
TEST = [SPLITS.index("id_test"), SPLITS.index("ood_test")]


def other_test_labels(table):
    """Reverse the order of the labels of test splits."""
    tested = np.isin(table.dense("graph", "split"), TEST)
    order = np.arange(len(table))
    order[tested] = order[tested][::-1]
    return table.with_columns(
        graph={name: table.dense("graph", name)[order] for name in ("y", "label")}
    )


def train(folder, corpus, **options):
    return run_stage(folder, "train", {"source": "prepare", **options}, {"prepare": corpus})


@pytest.mark.parametrize("options", [NETWORK, {"backbone": "wl"}], ids=["network", "linear"])
def test_no_file_depends_on_test_labels(tmp_path, options):
    one, two = (
        train(
            tmp_path,
            write_small_corpus(tmp_path, change, sizes=SIZES),
            evaluate="sealed",
            **options,
        )
        for change in (unchanged, other_test_labels)
    )
    assert one.manifest.files == two.manifest.files
    assert "predictions.safetensors" in one.manifest.files
    assert one.manifest.summary == two.manifest.summary
    assert "test" not in json.dumps(one.manifest.summary)


@pytest.mark.parametrize(
    "options",
    [
        ["--epochs", 2, "--width", 8],
        ["--epochs", 2, "--width", 8, "--select", "ood_val"],
        ["--backbone", "wl"],
    ],
    ids=["last", "ood_val", "linear"],
)
@pytest.mark.parametrize("level", ["graph", "node"])
def test_unsealed_scores_are_those_of_an_open_run(tmp_path, level, options):
    if level == "node":
        corpus = run_recipe(tmp_path, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
        options = ["--backbone", "node"] if "wl" in options else options
    else:
        corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    words = ("train", corpus.key, *options, "--method", "m", "--store", tmp_path)
    sealed, plain = tmp_path / "sealed", tmp_path / "open"
    assert gsx(*words, "--results", plain).code == 0
    assert gsx(*words, "--results", sealed, "--seal").code == 0
    (path,) = sealed.rglob("*.json")
    before = json.loads(path.read_text())
    assert before["sealed"] is True
    assert before["ood_test"] is before["id_test"] is None
    unsealed = json.loads(gsx("unseal", sealed, "--json", "--store", tmp_path).out)
    after, expected = (
        json.loads(next(folder.rglob("*.json")).read_text()) for folder in (sealed, plain)
    )
    assert after["ood_test"] == expected["ood_test"] is not None
    assert after["id_test"] == expected["id_test"]
    assert after["scores"][after["selection"]] == expected["scores"][expected["selection"]]
    assert after["unsealed"] == unsealed["unsealed"]
    assert after["unsealed"]["runs"] == 1
    assert "sealed" not in after


def sealed_results(folder, methods):
    corpus = write_small_corpus(folder, unchanged, sizes=SIZES)
    for method in methods:
        words = ("train", corpus.key, "--backbone", "size", "--store", folder, "--seal")
        assert gsx(*words, "--results", folder / "results", "--method", method).code == 0
    return folder / "results"


def resolver(store):
    return lambda key, kind: Store.at(store).resolve(key, kind=kind)


def test_a_folder_is_unsealed_at_once_and_once(tmp_path):
    results = sealed_results(tmp_path, ["a", "b"])
    missing = json.loads((results / "motif-size/b-0.json").read_text())
    broken = {**missing, "model_key": "0" * 64}
    (results / "motif-size/b-0.json").write_text(json.dumps(broken))
    with pytest.raises(ArtifactError, match="no model artifact"):
        unseal_results(results, resolver(tmp_path), "now")
    assert '"unsealed":' not in (results / "motif-size/a-0.json").read_text()
    (results / "motif-size/b-0.json").write_text(json.dumps(missing))
    written = unseal_results(results, resolver(tmp_path), "now")
    assert [document["method"] for _, document in written] == ["a", "b"]
    assert {document["unsealed"]["time"] for _, document in written} == {"now"}
    with pytest.raises(UsageError, match="has no sealed results"):
        unseal_results(results, resolver(tmp_path), "later")
    sealed_results(tmp_path, ["c"])
    with pytest.raises(UsageError, match=r"2 results that were unsealed at now, and 1 sealed"):
        unseal_results(results, resolver(tmp_path), "later")


def test_sealing_excludes_other_evaluations(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    refused = gsx("train", corpus.key, "--seal", "--evaluate", "all", "--store", tmp_path)
    assert refused.code == 2
    assert "--seal stores test predictions without scores" in refused.err
