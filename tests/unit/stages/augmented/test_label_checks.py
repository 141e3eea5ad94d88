"""Checks of causal subgraphs and of labels of equal graphs."""

import numpy as np
import pytest

from gsx.stages.augmented.check import failed_check_warnings
from gsx.stages.augmented.label_checks import (
    causal_conflict_check,
    causal_prediction_check,
    label_conflict_check,
)
from gsx.stages.augmented.rejection import duplicate_counts
from gsx.stages.extract.metrics import compare_predictions, score_predictions
from gsx.stages.graphs.wl_hash import labelled_hashes, wl_hashes
from gsx.stages.sharded_build import hashes_path
from gsx.storage.corpora.corpus_writer import Shard


def predictions(strength, y, stream):
    """Return logits of a binary task that separate the classes by ``strength``."""
    return strength * y + stream.normal(size=y.shape)


def quality_of(strengths, count=400, task="binary"):
    stream = np.random.default_rng(3)
    y = (np.arange(count) % 3 == 0).astype(np.float64)[:, None]
    logits = {name: predictions(strength, y, stream) for name, strength in strengths.items()}
    scores = {name: score_predictions(values, y, task) for name, values in logits.items()}
    comparison = compare_predictions(y, logits, task)
    return {"held_out_scores": scores, "held_out_comparison": comparison}


@pytest.mark.parametrize(
    ("subgraph", "rest", "whole", "verdict", "text"),
    [
        (2.0, 0.2, 2.0, "good", "predicts the label better than the remaining nodes"),
        (2.0, 1.95, 2.0, "note", "the remaining nodes may predict the label as well"),
        (0.3, 2.0, 2.0, "bad", "The remaining nodes predict the label better."),
        (0.0, 0.0, 2.0, "bad", "The causal subgraph predicts the label no better than chance."),
        (0.0, 0.0, 0.0, "note", "even the whole graph predicts it no better than chance"),
    ],
)
def test_causal_subgraphs_are_compared_with_the_rest_and_with_chance(
    subgraph, rest, whole, verdict, text
):
    quality = quality_of({"subgraph": subgraph, "rest": rest, "whole": whole})
    (check,) = causal_prediction_check(quality)
    assert check.verdict == verdict
    assert text in check.text
    assert "on 400 graphs (95 % interval " in check.text
    assert "by chance 50.0%" in check.text
    assert len(failed_check_warnings([check])) == (verdict == "bad")


def test_few_held_out_graphs_are_inconclusive():
    """ROC-AUC of 74 % against 72 % on 89 graphs is no evidence for the causal subgraph."""
    (check,) = causal_prediction_check(
        quality_of({"subgraph": 0.95, "rest": 0.9, "whole": 1.0}, count=89)
    )
    assert check.verdict == "note"


def test_extractors_without_intervals_give_a_note():
    scores = {"subgraph": 0.739, "rest": 0.718, "whole": 0.74}
    (check,) = causal_prediction_check({"held_out_scores": scores})
    assert check.verdict == "note"
    assert "train it again" in check.text
    assert list(causal_prediction_check({"held_out_scores": {**scores, "whole": None}})) == []


def test_scores_by_task_are_those_of_chance_for_constant_predictions():
    classes = np.eye(3)[[0] * 80 + [1] * 15 + [2] * 5]
    assert score_predictions(np.tile([1.0, 0, 0], (100, 1)), classes, "classification") == (
        pytest.approx(1 / 3)
    )
    values = np.arange(10.0)[:, None]
    assert score_predictions(np.full((10, 1), 4.5), values, "regression") == 0.0
    assert score_predictions(values, values, "regression") == 1.0
    assert score_predictions(values, np.full((10, 1), 2.0), "regression") is None
    y = np.array([[1.0], [np.nan], [0.0], [1.0]])
    assert score_predictions(np.zeros((4, 1)), y, "binary") == 0.5


def test_regression_has_a_check_of_causal_subgraphs():
    stream = np.random.default_rng(0)
    y = stream.normal(size=(300, 1))
    logits = {"subgraph": y + 0.3 * stream.normal(size=y.shape), "rest": np.zeros_like(y),
              "whole": y}  # fmt: skip
    quality = {
        "held_out_scores": {
            name: score_predictions(values, y, "regression") for name, values in logits.items()
        },
        "held_out_comparison": compare_predictions(y, logits, "regression"),
    }
    (check,) = causal_prediction_check(quality)
    assert check.verdict == "good"
    assert check.figure == "0.92"
    assert check.text.startswith("R² of held-out labels")


def test_contradictory_causal_subgraphs_fail():
    counts = {"subgraphs": 888, "too_small": 0, "distinct": 200, "in_conflict": 313,
              "distinct_in_conflict": 17}  # fmt: skip
    (check,) = causal_conflict_check(counts, "binary")
    assert (check.verdict, check.figure) == ("bad", "64.8%")
    assert "313 of 888 causal subgraphs (17 of 200 distinct ones)" in check.text
    (check,) = causal_conflict_check({**counts, "in_conflict": 40}, "binary")
    assert check.verdict == "good"
    (check,) = causal_conflict_check({**counts, "in_conflict": 888, "outvoted": 60}, "binary")
    assert (check.verdict, check.figure) == ("good", "93.2%")
    assert list(causal_conflict_check(counts, "regression")) == []
    assert list(causal_conflict_check(None, "binary")) == []


@pytest.mark.parametrize(
    ("conflicts", "contradictions", "task", "verdict"),
    [(0, 0, "binary", "good"), (1, 1, "binary", "good"), (3, 0, "binary", "bad"),
     (0, 3, "binary", "bad"), (9, 0, "regression", "note")],
)  # fmt: skip
def test_labels_of_equal_graphs(conflicts, contradictions, task, verdict):
    row = {"graphs": 200, "label_conflicts": conflicts, "contradicts_training": contradictions}
    (check,) = label_conflict_check({"option_2": row, "option_3": {"graphs": 9}}, task)
    assert check.verdict == verdict


def test_graphs_that_contradict_a_training_graph_are_counted(motif_table, tmp_path):
    train = motif_table.slice(0, 20)
    y = train.dense("graph", "y")
    hashes = wl_hashes(train)
    other = y.copy()
    other[:4] = np.roll(y[:4], 1, axis=1)
    files = {}

    class Draft:
        scratch = tmp_path

    def read(name):
        return files[name]

    from safetensors.numpy import save

    shard = Shard("train", 0, 1, 0, 20)
    files[hashes_path(shard)] = save({"wl": hashes, "labelled": labelled_hashes(hashes, other)})
    none = np.zeros(0, dtype=np.uint64)
    counts = duplicate_counts([shard], read, Draft(), hashes, none, labelled_hashes(hashes, y))
    assert counts["same_as_training"] == 20
    assert counts["contradicts_training"] == 4
