"""The second opinion of a report: whom it asks, what it counts, what it says of parts."""

import dataclasses
import json

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError
from gsx.schema import CorpusInfo, Environment
from gsx.stages.report import consistency_checks as truth
from gsx.stages.report import model_agreement as teacher
from gsx.stages.report.model_results import BEFORE, ELSEWHERE, HERE, read_models
from gsx.stages.report.quality_sections import quality_section
from gsx.stages.report.sample import read_facts, read_sample
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
LESSON = {"epochs": 2, "width": 16}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("teacher")


@pytest.fixture(scope="module")
def made(home):
    found = run_recipe(home, RECIPE)
    source, whole = {"prepare": found["prepare"]}, {"generate": found["generate"]}
    return found | {
        "before": run_stage(home, "train", {**LESSON, "source": "prepare"}, source),
        "here": run_stage(home, "train", LESSON, whole),
        "alone": run_stage(home, "train", {**LESSON, "augmented": False, "seed": 1}, whole),
    }


@pytest.fixture(scope="module")
def corpus(made):
    return Corpus(made["generate"])


@pytest.fixture(scope="module")
def read(corpus):
    facts = read_facts(corpus)
    return facts, read_sample(corpus, facts, 0, lambda *_: None)


def info(**changes):
    plain = CorpusInfo(outputs=("a", "b", "c"), domain="size", name="x", columns=(), num_features=1,
                       environments=(Environment(id=0, name="e"),))  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def test_a_classifier_that_learned_the_labels_it_judges_is_not_asked_unless_named(corpus, made):
    found, passed = teacher.find(corpus, [(HERE, made["here"])], None, made=True)
    assert (found, passed) == (None, [])
    for where, name in ((BEFORE, "before"), (HERE, "alone")):
        found, _ = teacher.find(
            corpus, [(HERE, made["here"]), (where, made[name])], None, made=True
        )
        assert found.artifact.key == made[name].key
        assert not found.learned_these
    found, _ = teacher.find(corpus, [], (HERE, made["here"]), made=True)
    assert found.learned_these


def test_of_a_source_corpus_its_own_classifiers_are_asked(made):
    found, _ = teacher.find(Corpus(made["prepare"]), [(HERE, made["before"])], None, made=False)
    assert found.artifact.key == made["before"].key


def test_the_best_on_ood_validation_is_asked(corpus, made):
    models = [(BEFORE, made["before"]), (HERE, made["alone"])]
    scores = {
        each.key: each.manifest.summary["quality"]["selection"]["ood_val"]["ood_val"]
        for _, each in models
    }
    found, _ = teacher.find(corpus, models, None, made=True)
    assert scores[found.artifact.key] == max(scores.values())


def test_the_table_holds_the_accuracy_that_evaluate_finds(corpus, made, read):
    """Splits are smaller than the sample, so both have asked about every graph."""
    found, _ = teacher.find(corpus, [(BEFORE, made["before"])], None, made=True)
    told = {row["group"]: row for row in teacher.ask(found, corpus, *read).rows}
    scores = evaluate(made["before"], corpus, "weights.safetensors", teacher.CPU)["splits"]
    for split in ("id_test", "ood_val", "ood_test"):
        assert told[split]["items"] == corpus.splits[split]
        assert told[split]["same"] * 100 == pytest.approx(scores[split]["score"], abs=1e-3)
    assert told["augmented"]["name"] == "synthetic: whole graphs"
    assert told["augmented"]["items"] == 60


def test_a_classifier_lays_out_every_sampled_graph(corpus, made, read):
    found, _ = teacher.find(corpus, [], (BEFORE, made["before"]), made=True)
    first, again = (teacher.ask(found, corpus, *read) for _ in range(2))
    assert {name: len(points) for name, points in first.points.items()} == {
        name: len(rows) for name, rows in read[0].groups.items()
    }
    for name, points in first.points.items():
        assert np.array_equal(points, again.points[name])
    assert [row["group"] for row in first.near] == ["id_test", "ood_val", "ood_test"]


def test_a_classifier_of_other_graphs_is_refused_when_named_and_passed_over_when_found(made, home):
    other = run_recipe(home, '[prepare]\ndataset = "fsmotif-base-color"\nnum_graphs = 100\n')
    corpus = Corpus(other["prepare"])
    with pytest.raises(StageError, match="the model does not fit fsmotif-base-color"):
        teacher.find(corpus, [], (ELSEWHERE, made["before"]), made=False)
    found, passed = teacher.find(corpus, [(HERE, made["before"])], None, made=False)
    assert found is None
    (check,) = truth.second_opinion(None, passed)
    assert check.figure == "not asked"
    assert check.text.startswith(
        f"1 classifiers could not be asked; the first is {made['before'].key[:12]}: the model does"
    )


def test_the_command_takes_a_model_and_refuses_contradictions(made, home, tmp_path):
    page = tmp_path / "report.html"
    said = run("report", made["generate"].key[:12], "-o", page, "--store", home,
               "--model", made["here"].key[:12])  # fmt: skip
    assert said.code == 0, said.err
    text = page.read_text()
    assert "It has learned from these very labels, so this says little." in text
    assert f"Asked was erm, gin, 2 epochs ({made['here'].key[:12]}), trained on this corpus" in text
    assert "What a classifier sees" in text
    said = run("report", made["generate"].key[:12], "--store", home, "--no-models", "--model", "ab")
    assert said.code == 2
    assert "--model names a classifier and --no-models leaves all out" in said.err


def test_torn_labels_are_told_by_either_class():
    y = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.75, 0.25, 0], [np.nan] * 3])
    logits = np.array([[9.0, 0, 0], [0, 9, 0], [0, 9, 0], [0, 0, 9]])
    found = teacher.agreement(info(), logits, y)
    assert found["same"] == pytest.approx(2 / 3)
    assert found["shared"] == pytest.approx((1 + 0.5 + 0.25) / 3, abs=1e-3)
    assert found["score"] == 100.0  # the one hard label is told


def test_answers_to_yes_or_no_and_values_are_compared_in_their_own_way():
    y = np.array([[1.0, np.nan], [0.0, 1.0]])
    found = teacher.agreement(
        info(task="multitask", metric="roc_auc"), np.array([[9.0, 0], [9, 9]]), y
    )
    assert found["same"] == pytest.approx(2 / 3)
    off = teacher.agreement(info(task="regression", metric="rmse"), np.array([[1.0, 5], [1, 1]]), y)
    assert off == {"off": pytest.approx(1 / 3)}


def test_trainings_that_read_alike_say_what_differs(made, home):
    wide = run_stage(home, "train", {"epochs": 2, "width": 8}, {"generate": made["generate"]})
    rows = read_models([(HERE, made["here"]), (HERE, wide), (HERE, made["alone"])])
    assert sorted((row.name, row.where) for row in rows) == [
        ("erm, gin, 2 epochs, width 16", "this corpus"),
        ("erm, gin, 2 epochs, width 16", "this corpus, source alone"),
        ("erm, gin, 2 epochs, width 8", "this corpus"),
    ]


def test_a_low_error_is_the_best_one(made):
    row = read_models([(HERE, made["here"])])[0]
    errors = [
        dataclasses.replace(row, metric="rmse", scores=({"ood_val": value},))
        for value in (3.0, 2.0)
    ]
    assert sorted(errors, key=lambda each: each.rank("ood_val"))[0].text("ood_val") == "2.000"


def test_quality_of_pieces_is_told_per_environment(made):
    quality = {
        "causal": {"iou": 0.9, "exact": 0.8, "node_auc": None,
                   "per_environment": [{"env_id": 0, "iou": 0.95, "exact": 0.7, "node_auc": 0.5}]},
        "label_told_held_out": {"piece": 0.6, "rest": 0.3, "whole": None},
        "label_told_per_environment": [{"env_id": 0, "piece": 0.61, "rest": 0.2, "whole": 0.5}],
    }  # fmt: skip
    manifest = msgspec.structs.replace(
        made["prepare"].manifest, stage="extract", kind="extractor",
        summary={"quality": json.loads(json.dumps(quality))},
    )  # fmt: skip
    html = quality_section((manifest,), {0: "small"})
    for cell in ("0 · small", "95.0%", "61.0%", "90.0%"):
        assert f">{cell}</td>" in html
    assert html.count(">-</td>") == 2
    assert not [
        check
        for check in truth._extractor(Corpus(made["prepare"]).info, (manifest,))
        if "carry" in check.title
    ]
