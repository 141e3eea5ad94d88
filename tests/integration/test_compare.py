"""`gsx compare CORPUS [BASELINE]`: paired training with and without augmented graphs."""

import json

import numpy as np
import pytest

from gsx.pipeline.compare import CompareRequest, compare_corpora
from gsx.stages.train.paired_comparison import Comparison
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx
from tests.support.run_stages import run_recipe, stop_training

RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 300
[generate]
options = "001"
bridges = "none"
count = 120
"""
SMALL = ("--width", 8, "--epochs", 2, "--batch-size", 30)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return {"store": folder, **run_recipe(folder, RECIPE)}


def models(store):
    return [artifact.manifest for artifact in Store.at(store).artifacts("model")]


def test_a_corpus_is_compared_with_its_source_graphs(corpora, tmp_path):
    corpus = corpora["generate"].location.url
    words = ("compare", corpus, "--seeds", 2, *SMALL, "--store", tmp_path)
    result = gsx(*words, "--json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert (document["metric"], document["higher_is_better"]) == ("accuracy", True)
    assert document["baseline"] == "source graphs"
    # 2 epochs of 300 graphs in batches of 30; the 180 source graphs get as many steps.
    assert document["steps"] == 20
    assert list(document["splits"]) == ["id_test", "ood_test"]
    for split, row in document["splits"].items():
        assert row["items"] == 30
        for name, scores in (("corpus", "scores"), ("baseline", "baseline_scores")):
            mean = np.mean([run[scores][split] for run in document["runs"]])
            assert row[name] == pytest.approx(mean, abs=1e-3)
        assert row["gain"] == pytest.approx(row["corpus"] - row["baseline"], abs=1e-3)
        assert row["low"] <= row["gain"] <= row["high"]
    assert [run["seed"] for run in document["runs"]] == [0, 1]
    configs = [manifest.config for manifest in models(tmp_path)]
    assert sorted((config["seed"], config["augmented"]) for config in configs) == [
        (0, False), (0, True), (1, False), (1, True),
    ]  # fmt: skip
    assert {config["steps"] for config in configs} == {20}
    again = gsx(*words)
    assert len(models(tmp_path)) == 4
    assert "motif-size: accuracy ↑, 2 seeds, 20 gradient steps per run" in again.out
    assert again.out.splitlines()[1].split()[:5] == [
        "SPLIT",
        "ITEMS",
        "AUGMENTED",
        "SOURCE",
        "GAIN",
    ]
    assert "2 of the usual 5 seeds" in again.err
    assert "seed 1: id_test " in again.err


def test_two_corpora_are_compared_and_written_as_results(corpora, tmp_path):
    names = [corpora[name].location.url for name in ("generate", "prepare")]
    words = ("compare", *names, "--seeds", 1, *SMALL, "--store", tmp_path)
    folder = tmp_path / "results"
    result = gsx(*words, "--results", folder, "--method", "spliced")
    assert result.code == 0, result.err
    assert "CORPUS" in result.out
    assert "written: 2 result files" in result.out
    table = gsx("table", folder).out
    assert "| spliced |" in table
    assert "gain over baseline" in table
    names = [row.parents[0].key for row in models(tmp_path)]
    assert sorted(names) == sorted(corpora[name].key for name in ("generate", "prepare"))


def test_an_interrupted_comparison_resumes(corpora, tmp_path, monkeypatch):
    words = ("compare", corpora["generate"].location.url, "--seeds", 1, *SMALL, "--store", tmp_path)
    started_epochs = stop_training(monkeypatch, 2)  # in the longer run, of the baseline
    assert gsx(*words).code == 130
    result = gsx(*words)
    assert result.code == 0, result.err
    assert started_epochs == [0, 1, 0, 1, 2, 2]


def test_validation_splits_are_compared_without_test_splits(corpora, tmp_path):
    words = ("compare", corpora["generate"].location.url, "--seeds", 1, *SMALL)
    result = gsx(*words, "--split", "ood_val", "--store", tmp_path, "--json", "-q")
    assert list(json.loads(result.out)["splits"]) == ["ood_val"]
    assert result.err == ""
    assert {manifest.config["evaluate"] for manifest in models(tmp_path)} == {"validation"}


def test_equal_epochs_are_an_option(corpora, tmp_path):
    words = ("compare", corpora["generate"].location.url, "--seeds", 1, *SMALL, "--equal-epochs")
    document = json.loads(gsx(*words, "--store", tmp_path, "--json").out)
    assert document["steps"] is None
    assert {manifest.config.get("steps") for manifest in models(tmp_path)} == {None}


def test_linear_models_need_one_run(corpora, tmp_path):
    words = ("compare", corpora["generate"].location.url, "--backbone", "size")
    result = gsx(*words, "--store", tmp_path, "--json")
    assert len(json.loads(result.out)["runs"]) == 1
    assert "linear models do not depend on the seed" in result.err


def test_nodes_are_compared_with_equal_epochs(tmp_path):
    recipe = '[prepare]\ndataset = "cbas-color"\n[augment]\nmethod = "drop-edge"\nreplicas = 1\n'
    corpus = run_recipe(tmp_path, recipe)["augment"]
    options = {"backbone": "gcn", "width": 8, "epochs": 1, "samples": 1}
    request = CompareRequest(corpus=corpus, options=options, seeds=1)
    comparison = compare_corpora(request, Store.at(tmp_path))
    assert comparison.steps is None
    assert comparison.items == {"id_test": 70, "ood_test": 70}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["PREPARE"], "has no augmented graphs, so there is nothing to compare"),
        (["GENERATE", "GENERATE"], "both corpora are the same"),
        ([], "gsx compare takes CORPUS, CORPUS BASELINE, or RESULTS METHOD BASELINE"),
        (["GENERATE", "--seeds", "0"], "--seeds must be at least 1"),
        (["GENERATE", "--steps", "5", "--epochs", "2"], "--steps excludes --epochs"),
        (["results", "a", "b", "--epochs", "2"], "--epochs applies to the comparison of corpora"),
        (["motif-size"], "`motif-size` is a dataset, not a corpus"),
    ],
)
def test_wrong_comparisons_are_usage_errors(corpora, tmp_path, words, message):
    names = {name.upper(): corpora[name].location.url for name in ("prepare", "generate")}
    result = gsx("compare", *(names.get(word, word) for word in words), "--store", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_gains_are_positive_if_better():
    row = {"dataset": "x", "seeds": 2, "method": 1.0, "baseline": 2.0, "p": 0.1}
    values = {"difference": -1.0, "low": -1.5, "high": 0.5}
    assert Comparison(metric="accuracy", **row, **values).gain == (-1.0, -1.5, 0.5)
    assert Comparison(metric="rmse", **row, **values).gain == (1.0, -0.5, 1.5)
