"""Reference model of a report: selection, agreement with labels, and quality sections."""

import dataclasses
import json

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError
from gsx.schema import CorpusInfo, Environment
from gsx.stages.augmented.label_checks import causal_prediction_check
from gsx.stages.report import agreement_check as checks_module
from gsx.stages.report import model_agreement
from gsx.stages.report.agreement_measures import (
    agreement_measure,
    balanced_agreement,
    concordance,
)
from gsx.stages.report.model_results import OTHER_CORPUS, SOURCE_CORPUS, THIS_CORPUS, read_models
from gsx.stages.report.quality_sections import quality_section
from gsx.stages.report.sample import read_graph_columns, read_sample
from gsx.stages.train.evaluate import evaluate
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.run_stages import run_recipe, run_stage

RECIPE = """
[prepare]
dataset = "motif-base"
num_graphs = 300
[generate]
options = "001"
f = [2, 2]
count = 60
bridges = "none"
"""
TRAIN = {"epochs": 2, "width": 16}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("agreement")


@pytest.fixture(scope="module")
def artifacts(home):
    artifacts = run_recipe(home, RECIPE)
    source, augmented = {"prepare": artifacts["prepare"]}, {"generate": artifacts["generate"]}
    return artifacts | {
        "before": run_stage(home, "train", {**TRAIN, "source": "prepare"}, source),
        "here": run_stage(home, "train", TRAIN, augmented),
        "alone": run_stage(home, "train", {**TRAIN, "augmented": False, "seed": 1}, augmented),
    }


@pytest.fixture(scope="module")
def corpus(artifacts):
    return Corpus(artifacts["generate"])


@pytest.fixture(scope="module")
def columns_and_sample(corpus):
    columns = read_graph_columns(corpus)
    return columns, read_sample(corpus, columns, 0, lambda *_: None)


def info(**changes):
    plain = CorpusInfo(outputs=("a", "b", "c"), domain="size", name="x", columns=(), num_features=1,
                       environments=(Environment(id=0, name="e"),))  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def test_a_classifier_trained_on_generated_labels_is_used_only_if_named(corpus, artifacts):
    model, skipped = model_agreement.find_reference_model(
        corpus, [(THIS_CORPUS, artifacts["here"])], None, has_augmented=True
    )
    assert (model, skipped) == (None, [])
    for trained_on, name in ((SOURCE_CORPUS, "before"), (THIS_CORPUS, "alone")):
        model, _ = model_agreement.find_reference_model(
            corpus,
            [(THIS_CORPUS, artifacts["here"]), (trained_on, artifacts[name])],
            None,
            has_augmented=True,
        )
        assert model.artifact.key == artifacts[name].key
        assert not model.trained_on_these
    model, _ = model_agreement.find_reference_model(
        corpus, [], (THIS_CORPUS, artifacts["here"]), has_augmented=True
    )
    assert model.trained_on_these


def test_reference_model_of_a_source_corpus(artifacts):
    model, _ = model_agreement.find_reference_model(
        Corpus(artifacts["prepare"]),
        [(THIS_CORPUS, artifacts["before"])],
        None,
        has_augmented=False,
    )
    assert model.artifact.key == artifacts["before"].key


def test_reference_model_has_the_best_ood_validation_score(corpus, artifacts):
    models = [(SOURCE_CORPUS, artifacts["before"]), (THIS_CORPUS, artifacts["alone"])]
    scores = {
        artifact.key: artifact.manifest.summary["quality"]["selection"]["last"]["ood_val"]
        for _, artifact in models
    }
    model, _ = model_agreement.find_reference_model(corpus, models, None, has_augmented=True)
    assert scores[model.artifact.key] == max(scores.values())


def test_agreement_equals_the_accuracy_of_evaluate(corpus, artifacts, columns_and_sample):
    """Splits are smaller than the sample, so both use every graph."""
    model, _ = model_agreement.find_reference_model(
        corpus, [(SOURCE_CORPUS, artifacts["before"])], None, has_augmented=True
    )
    rows = {
        row["group"]: row
        for row in model_agreement.graph_agreement(model, corpus, *columns_and_sample).rows
    }
    scores = evaluate(artifacts["before"], corpus, "weights.safetensors", model_agreement.CPU)[
        "splits"
    ]
    for split in ("id_test", "ood_val", "ood_test"):
        assert rows[split]["items"] == corpus.splits[split]
        assert rows[split]["same"] * 100 == pytest.approx(scores[split]["score"], abs=1e-3)
    assert rows["augmented"]["name"] == "generated: whole graphs"
    assert rows["augmented"]["items"] == 60


def test_every_sampled_graph_is_embedded_deterministically(corpus, artifacts, columns_and_sample):
    model, _ = model_agreement.find_reference_model(
        corpus, [], (SOURCE_CORPUS, artifacts["before"]), has_augmented=True
    )
    first, again = (
        model_agreement.graph_agreement(model, corpus, *columns_and_sample) for _ in range(2)
    )
    assert {name: len(points) for name, points in first.points.items()} == {
        name: len(rows) for name, rows in columns_and_sample[0].groups.items()
    }
    for name, points in first.points.items():
        assert np.array_equal(points, again.points[name])
    assert [row["group"] for row in first.distances] == ["id_test", "ood_val", "ood_test"]


def test_an_incompatible_classifier_is_refused_if_named_and_skipped_otherwise(artifacts, home):
    other = run_recipe(home, '[prepare]\ndataset = "fsmotif-base-color"\nnum_graphs = 100\n')
    corpus = Corpus(other["prepare"])
    with pytest.raises(StageError, match="the model does not fit fsmotif-base-color"):
        model_agreement.find_reference_model(
            corpus, [], (OTHER_CORPUS, artifacts["before"]), has_augmented=False
        )
    model, skipped = model_agreement.find_reference_model(
        corpus, [(THIS_CORPUS, artifacts["before"])], None, has_augmented=False
    )
    assert model is None
    (check,) = checks_module.agreement_check(None, skipped)
    assert check.figure == "not checked"
    key = artifacts["before"].key[:12]
    assert check.text.startswith(
        f"1 classifiers could not be used; the first is {key}: the model does"
    )


def test_command_accepts_a_model_and_refuses_conflicting_options(artifacts, home, tmp_path):
    page = tmp_path / "report.html"
    result = run("report", artifacts["generate"].key[:12], "-o", page, "--store", home,
               "--model", artifacts["here"].key[:12])  # fmt: skip
    assert result.code == 0, result.err
    text = page.read_text()
    assert "It was trained on these labels, so the agreement is inconclusive." in text
    assert (
        f"Predictions of erm, gin, 2 epochs ({artifacts['here'].key[:12]}), trained on this" in text
    )
    assert "Classifier embedding" in text
    result = run(
        "report", artifacts["generate"].key[:12], "--store", home, "--no-models", "--model", "ab"
    )
    assert result.code == 2
    assert "--model and --no-models exclude each other" in result.err


def test_agreement_with_soft_labels():
    y = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.75, 0.25, 0], [np.nan] * 3])
    logits = np.array([[9.0, 0, 0], [0, 9, 0], [0, 9, 0], [0, 0, 9]])
    agreement = model_agreement.agreement(info(), logits, y)
    assert agreement["same"] == pytest.approx(2 / 3)
    assert agreement["shared"] == pytest.approx((1 + 0.5 + 0.25) / 3, abs=1e-3)
    assert agreement["score"] == 100.0  # the only hard label is predicted


def test_agreement_of_binary_tasks_and_regression():
    y = np.array([[1.0, np.nan], [0.0, 1.0]])
    agreement = model_agreement.agreement(
        info(task="multitask", metric="roc_auc"), np.array([[9.0, 0], [9, 9]]), y
    )
    assert agreement["same"] == pytest.approx(2 / 3)
    regression = model_agreement.agreement(
        info(task="regression", metric="rmse"), np.array([[1.0, 5], [1, 1]]), y
    )
    assert regression == {"agreement": pytest.approx(0.5), "off": pytest.approx(1 / 3)}


def test_concordance_of_hard_labels_is_the_roc_auc_and_of_soft_labels_counts_pairs():
    score = np.array([0.1, 0.4, 0.35, 0.8])
    assert concordance(score, np.array([0.0, 0, 1, 1])) == pytest.approx(0.75)
    assert concordance(score, np.array([0.0, 0.5, 1, np.nan])) == pytest.approx(2 / 3)
    assert concordance(np.zeros(4), np.array([0.0, 0.5, 1, 0.2])) == pytest.approx(0.5)
    assert concordance(score, np.full(4, 0.5)) is None


def test_a_constant_prediction_agrees_by_chance_whatever_the_majority():
    y = np.eye(2)[[0] * 91 + [1] * 9]
    constant = np.tile([1.0, 0.0], (100, 1))
    assert agreement_measure("classification", constant, y) == 0.5
    assert agreement_measure("binary", np.zeros((100, 1)), y[:, 1:]) == 0.5
    assert model_agreement.agreement(info(), constant, y)["same"] == pytest.approx(0.91)
    assert balanced_agreement(constant[:91], y[:91]) is None


def agreement_of(rows, **changes):
    fields = {
        "name": "erm",
        "key": "k",
        "trained_on": "its source",
        "trained_on_these": False,
        "measure": "ROC-AUC",
        "chance": 0.5,
        "rows": rows,
        "points": {},
        "distances": (),
    }
    return model_agreement.ModelAgreement(**{**fields, **changes})  # fmt: skip


def group(name, items=100, **values):
    return {"group": name, "name": name, "items": items, **values}


@pytest.mark.parametrize(
    ("generated", "known", "verdict", "text"),
    [
        (0.78, 0.8, "good", "On id_test it is 80.0%"),
        (0.65, 0.8, "note", "A disagreement can be an error"),
        (0.5, 0.8, "bad", "contradict the classifier"),
        (0.9, 0.55, "note", "too weak to be conclusive"),
    ],
)
def test_verdict_of_the_agreement_compares_with_known_labels_and_chance(
    generated, known, verdict, text
):
    rows = [group("id_test", agreement=known), group("augmented", agreement=generated)]
    (check,) = checks_module.agreement_check(agreement_of(rows), [])
    assert check.verdict == verdict
    assert check.figure == f"{generated:.1%}"
    assert text in check.text


@pytest.mark.parametrize(("error", "verdict"), [(1.0, "good"), (1.6, "note"), (4.77, "bad")])
def test_errors_of_regression_labels_are_compared_with_held_out_errors(error, verdict):
    rows = [group("id_test", off=0.7, agreement=0.8), group("ood_val", off=0.9, agreement=0.7),
            group("augmented", 10, off=error, agreement=0.8)]  # fmt: skip
    checks = list(checks_module.agreement_check(agreement_of(rows, measure="Concordance"), []))
    assert [check.title for check in checks] == [
        "Classifier agreement",
        "Labels match predicted values",
    ]
    assert checks[1].verdict == verdict
    assert "On ood_val, whose labels are known, it is 0.9." in checks[1].text


def test_equal_model_titles_list_differing_options(artifacts, home):
    wide = run_stage(home, "train", {"epochs": 2, "width": 8}, {"generate": artifacts["generate"]})
    rows = read_models(
        [(THIS_CORPUS, artifacts["here"]), (THIS_CORPUS, wide), (THIS_CORPUS, artifacts["alone"])]
    )
    assert sorted((row.name, row.trained_on) for row in rows) == [
        ("erm, gin, 2 epochs, width 16", "this corpus"),
        ("erm, gin, 2 epochs, width 16", "this corpus, source only"),
        ("erm, gin, 2 epochs, width 8", "this corpus"),
    ]


def test_rmse_is_sorted_ascending(artifacts):
    row = read_models([(THIS_CORPUS, artifacts["here"])])[0]
    errors = [
        dataclasses.replace(row, metric="rmse", scores=({"ood_val": value},))
        for value in (3.0, 2.0)
    ]
    assert sorted(errors, key=lambda row: row.rank("ood_val"))[0].text("ood_val") == "2.000"


def test_quality_of_causal_subgraphs_per_environment(artifacts):
    quality = {
        "causal": {"iou": 0.9, "exact": 0.8, "node_auc": None,
                   "per_environment": [{"env_id": 0, "iou": 0.95, "exact": 0.7, "node_auc": 0.5}]},
        "held_out_scores": {"subgraph": 0.6, "rest": 0.3, "whole": None},
        "held_out_scores_per_environment": [
            {"env_id": 0, "subgraph": 0.61, "rest": 0.2, "whole": 0.5}
        ],
    }  # fmt: skip
    manifest = msgspec.structs.replace(
        artifacts["prepare"].manifest, stage="extract", kind="extractor",
        summary={"quality": json.loads(json.dumps(quality))},
    )  # fmt: skip
    html = quality_section((manifest,), {0: "small"})
    for cell in ("0 · small", "95.0%", "61.0%", "90.0%"):
        assert f">{cell}</td>" in html
    assert html.count(">-</td>") == 2
    assert not list(causal_prediction_check(quality))
