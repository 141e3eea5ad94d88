"""Evaluation reproduces the scores of training, with intervals and reasons for missing scores."""

import json

import msgspec
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import ArtifactError, StageError, UsageError
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.evaluate import aggregate_models, evaluate, size_ranges
from gsx.storage.corpora.corpus import Corpus
from tests.conftest import motif_split
from tests.support.run_stages import (
    attributed,
    attributed_info,
    run_stage,
    unchanged,
    write_small_corpus,
)

CPU = torch.device("cpu")
SIZES = {"train": 120, "id_val": 30, "id_test": 30, "ood_val": 30, "ood_test": 60}
SMALL = {"width": 16, "epochs": 2, "batch_size": 32, "source": "prepare"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = tmp_path_factory.mktemp("store")
        corpus = write_small_corpus(store, unchanged, sizes=SIZES)
        models = [
            run_stage(store, "train", {**SMALL, "seed": seed}, {"prepare": corpus})
            for seed in range(2)
        ]
        return {"store": store, "corpus": corpus, "models": models}


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def scores(artifact):
    return artifact.manifest.summary["quality"]["selection"]


def test_evaluation_reproduces_the_scores_of_training(trained):
    model = trained["models"][0]
    evaluation = evaluate(model, Corpus(trained["corpus"]), "weights.safetensors", CPU)
    selected = scores(model)["last"]
    row = evaluation["splits"]["ood_test"]
    assert (row["graphs"], row["score"], row["undefined"]) == (60, selected["ood_test"], None)
    assert row["interval"][0] < row["score"] < row["interval"][1]
    for section in ("environments", "sizes"):
        rows = [row for row in evaluation[section] if row["split"] == "ood_test"]
        assert sum(row["graphs"] for row in rows) == 60
        mean = sum(row["score"] * row["graphs"] for row in rows) / 60
        assert mean == pytest.approx(selected["ood_test"], abs=1e-2)


def test_several_models_give_means_and_intervals_over_models(trained):
    store = ("--store", trained["store"])
    keys = [model.key for model in trained["models"]]
    document = json.loads(gsx("evaluate", *keys, trained["corpus"].key, "--json", *store).stdout)
    row = document["splits"]["ood_test"]
    expected = [scores(model)["last"]["ood_test"] for model in trained["models"]]
    assert document["model_keys"] == keys
    assert document["differ_in"] == []
    assert row["scores"] == expected
    assert row["mean"] == pytest.approx(np.mean(expected), abs=1e-4)
    assert row["std"] == pytest.approx(np.std(expected, ddof=1), abs=1e-4)
    # Student with one degree of freedom: 12.706205 standard errors.
    margin = 12.706205 * np.std(expected, ddof=1) / np.sqrt(2)
    assert row["interval"] == pytest.approx([row["mean"] - margin, row["mean"] + margin], abs=1e-3)
    text = gsx("evaluate", *keys, trained["corpus"].key, *store).stdout.splitlines()
    assert text[0] == "weights of the last epoch"
    assert text[1].split() == ["SPLIT", "WHICH", "GRAPHS", "ACCURACY", "STD", "95", "%"]


def test_models_that_differ_in_more_than_the_seed_give_a_warning(trained, tmp_path):
    store, corpus = trained["store"], trained["corpus"]
    narrow = run_stage(store, "train", {**SMALL, "width": 8}, {"prepare": corpus})
    words = (trained["models"][0].key, narrow.key, corpus.key, "--store", store)
    result = gsx("evaluate", *words, "--json")
    assert "the models differ in more than the seed: width" in result.stderr
    assert json.loads(result.stdout)["differ_in"] == ["width"]


def test_the_same_model_twice_is_rejected(trained):
    key = trained["models"][0].key
    with pytest.raises(UsageError, match=f"model {key[:12]} is listed twice"):
        gsx("evaluate", key, key, trained["corpus"].key, "--store", trained["store"])


def one_class(table):
    held = table.dense("graph", "split") == 1
    y, label = (np.array(table.dense("graph", name)) for name in ("y", "label"))
    y[held], label[held] = np.eye(3)[0], 0
    return table.with_columns(graph={"y": y, "label": label})


def no_labels(table):
    y = np.full_like(table.dense("graph", "y"), np.nan)
    label = np.full_like(table.dense("graph", "label"), -1)
    return table.with_columns(graph={"y": y, "label": label})


def test_a_split_of_one_class_has_a_reason_instead_of_a_score(trained, tmp_path):
    info = msgspec.structs.replace(motif.corpus_info("motif-size"), metric="mcc")
    corpus = write_small_corpus(trained["store"], one_class, info, SIZES)
    words = (trained["models"][0].key, corpus.key, "--store", trained["store"])
    result = gsx("evaluate", *words, "--json")
    assert "mcc is undefined on `id_val`: all labels have the same class" in result.stderr
    row = json.loads(result.stdout)["splits"]["id_val"]
    assert row == {
        "graphs": 30,
        "score": None,
        "interval": None,
        "undefined": "all labels have the same class",
    }
    assert json.loads(result.stdout)["splits"]["ood_test"]["score"] is not None


def test_a_corpus_without_labels_is_rejected(trained):
    corpus = write_small_corpus(trained["store"], no_labels, sizes={"ood_test": 30})
    with pytest.raises(
        StageError, match=r"undefined on every split of motif-size \(`ood_test`: there are no"
    ):
        evaluate(trained["models"][0], Corpus(corpus), "weights.safetensors", CPU)


def test_means_ignore_undefined_scores():
    def evaluation(score):
        row = {"graphs": 3, "score": score, "interval": None, "undefined": None}
        return {"metric": "mcc", "splits": {"ood_test": row}, "environments": [], "sizes": []}

    row = aggregate_models([evaluation(0.5), evaluation(None)])["splits"]["ood_test"]
    assert (row["mean"], row["std"], row["interval"]) == (0.5, None, None)
    assert row["scores"] == [0.5, None]


def test_size_ranges_have_no_gaps_and_no_overlap():
    table = motif_split("train", 0, 60)
    ranges = size_ranges(table)
    counts = [((table.num_nodes >= a) & (table.num_nodes <= b)).sum() for a, b in ranges]
    assert sum(counts) == 60
    assert len(ranges) <= 4
    assert size_ranges(table.slice(0, 0)) == []


def two_features(table):
    ones = np.ones((table.total_nodes, 2), dtype=np.float32)
    return table.with_columns(node={"node_feat": ones})


def two_features_info():
    from gsx.schema import corpus_columns

    plain = motif.corpus_info("motif-size")
    extras = tuple(
        c for c in plain.columns if c.name in ("node_truth", "basis_id", "motif_id", "width_id")
    )
    columns = corpus_columns(outputs=3, num_features=2, extras=extras)
    return msgspec.structs.replace(plain, name="wide", columns=columns, num_features=2)


def test_a_corpus_with_other_features_is_rejected(trained, tmp_path):
    model = trained["models"][0]
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), SIZES)
    message = r"does not fit attributed \(edge features: 0 in the model, 2 in the corpus\)"
    with pytest.raises(StageError, match=message):
        evaluate(model, Corpus(corpus), "weights.safetensors", CPU)
    wide = write_small_corpus(tmp_path, two_features, two_features_info(), SIZES)
    message = (
        r"does not fit wide \(features: 1 in the model, 2 in the corpus\)\. Evaluate it on a corpus"
    )
    with pytest.raises(StageError, match=message):
        evaluate(model, Corpus(wide), "weights.safetensors", CPU)
    with pytest.raises(ArtifactError, match=r"has no file `other\.safetensors`\. Its weight files"):
        evaluate(model, Corpus(trained["corpus"]), "other.safetensors", CPU)
