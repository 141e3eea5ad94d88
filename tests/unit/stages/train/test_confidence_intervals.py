"""Bootstrap and t intervals."""

import numpy as np
import pytest

from gsx.stages.train.confidence_intervals import (
    RESAMPLES,
    bootstrap_interval,
    resampled_scores,
    t_interval,
)
from gsx.stages.train.metrics import score, undefined_reason

NAN = float("nan")
CASES = [
    ("accuracy", "classification", 3),
    ("accuracy", "multitask", 2),
    ("mcc", "classification", 3),
    ("mcc", "binary", 1),
    ("roc_auc", "binary", 1),
    ("roc_auc", "multitask", 3),
    ("roc_auc", "classification", 2),
    ("rmse", "regression", 2),
]


def make_data(task, columns, graphs=40):
    stream = np.random.default_rng(3)
    logits = stream.normal(size=(graphs, columns)).round(1)  # with ties
    if task == "classification":
        return logits, np.eye(columns)[stream.integers(columns, size=graphs)]
    y = stream.normal(size=logits.shape)
    y = y if task == "regression" else (y > 0).astype(float)
    if task in ("multitask", "regression"):
        y[stream.random(y.shape) < 0.3] = NAN
    return logits, y


@pytest.mark.parametrize(("metric", "task", "columns"), CASES)
def test_resampled_scores_equal_scores_of_the_resampled_graphs(metric, task, columns):
    logits, y = make_data(task, columns)
    drawn = np.random.default_rng(4).integers(len(y), size=(20, len(y)))
    counts = np.stack([np.bincount(rows, minlength=len(y)) for rows in drawn]).astype(float)
    scores = resampled_scores(metric, task, logits, y, counts)
    expected = [score(metric, task, logits[rows], y[rows]) for rows in drawn]
    assert scores == pytest.approx(expected, abs=2e-4)


def test_resamples_with_undefined_scores_do_not_count():
    # Of two graphs, half of the resamples have one class only; the others score 100.
    logits, y = np.array([[1.0], [-1.0]]), np.array([[1.0], [0.0]])
    counts = np.array([[1.0, 1.0], [2.0, 0.0]])
    scores = resampled_scores("roc_auc", "binary", logits, y, counts)
    assert scores[0] == 100.0
    assert np.isnan(scores[1])
    assert bootstrap_interval("roc_auc", "binary", logits, y, "ood_test") == (100.0, 100.0)
    assert bootstrap_interval("roc_auc", "binary", logits, np.ones((2, 1)), "ood_test") is None
    assert bootstrap_interval("mcc", "binary", logits[:0], y[:0], "ood_test") is None


def test_the_interval_of_an_accuracy_has_the_binomial_width():
    # 80 of 100 correct: the normal interval is 80 ± 1.96 * 4.
    y = np.ones((100, 1))
    logits = np.where(np.arange(100) < 80, 1.0, -1.0)[:, None]
    low, high = bootstrap_interval("accuracy", "binary", logits, y, "ood_test")
    assert low == pytest.approx(72.2, abs=1.1)
    assert high == pytest.approx(87.8, abs=1.1)


def test_an_interval_is_reproducible_and_depends_on_the_split():
    logits, y = make_data("binary", 1)
    one, two = (bootstrap_interval("roc_auc", "binary", logits, y, "ood_val") for _ in range(2))
    assert one == two
    assert one != bootstrap_interval("roc_auc", "binary", logits, y, "ood_test")


def test_resamples_are_drawn_in_blocks(monkeypatch):
    from gsx.stages.train import confidence_intervals

    logits, y = make_data("binary", 1)
    sizes = []
    original = resampled_scores

    def recorded(metric, task, logits, y, counts):
        sizes.append(len(counts))
        return original(metric, task, logits, y, counts)

    monkeypatch.setattr(confidence_intervals, "BLOCK", 300 * len(y))
    monkeypatch.setattr(confidence_intervals, "resampled_scores", recorded)
    bootstrap_interval("accuracy", "binary", logits, y, "ood_test")
    assert sizes == [300, 300, 300, 100]
    assert sum(sizes) == RESAMPLES


def test_the_interval_of_a_mean_is_a_t_interval():
    # Mean 52, std 2, three seeds: 52 ± 4.302653 * 2 / sqrt(3).
    assert t_interval([50.0, 52.0, 54.0]) == (47.0317, 56.9683)
    assert t_interval([50.0, 54.0]) == (26.5876, 77.4124)
    assert t_interval([50.0]) is None


@pytest.mark.parametrize(
    ("metric", "task", "y", "reason"),
    [
        ("roc_auc", "binary", [[1.0], [1.0]], "all labels have the same class"),
        ("mcc", "classification", [[1.0, 0.0], [1.0, 0.0]], "all labels have the same class"),
        ("accuracy", "binary", [[NAN], [NAN]], "there are no labels"),
        ("roc_auc", "classification", np.eye(3), "it needs two classes, but there are 3"),
        ("accuracy", "binary", [[1.0], [1.0]], None),
    ],
)
def test_undefined_metrics_have_a_reason(metric, task, y, reason):
    assert undefined_reason(metric, task, np.array(y)) == reason
