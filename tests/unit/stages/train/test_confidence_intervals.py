"""Intervals: resampled scores are the scores of resampled graphs, and cover what they claim to."""

import numpy as np
import pytest

from gsx.stages.train.confidence_intervals import RESAMPLES, bootstrap, resampled, t_interval
from gsx.stages.train.metrics import score, why_undefined

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


def made(task, columns, graphs=40):
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
def test_a_resampled_score_is_the_score_of_the_graphs_drawn(metric, task, columns):
    logits, y = made(task, columns)
    drawn = np.random.default_rng(4).integers(len(y), size=(20, len(y)))
    times = np.stack([np.bincount(rows, minlength=len(y)) for rows in drawn]).astype(float)
    found = resampled(metric, task, logits, y, times)
    expected = [score(metric, task, logits[rows], y[rows]) for rows in drawn]
    assert found == pytest.approx(expected, abs=2e-4)


def test_samples_without_a_score_do_not_count():
    # Of two graphs, half of the samples hold one class only; the rest score 100.
    logits, y = np.array([[1.0], [-1.0]]), np.array([[1.0], [0.0]])
    times = np.array([[1.0, 1.0], [2.0, 0.0]])
    found = resampled("roc_auc", "binary", logits, y, times)
    assert found[0] == 100.0
    assert np.isnan(found[1])
    assert bootstrap("roc_auc", "binary", logits, y, "ood_test") == (100.0, 100.0)
    assert bootstrap("roc_auc", "binary", logits, np.ones((2, 1)), "ood_test") is None
    assert bootstrap("mcc", "binary", logits[:0], y[:0], "ood_test") is None


def test_an_interval_has_the_width_of_a_binomial_share():
    # 80 of 100 right: the normal interval is 80 ± 1.96 * 4.
    y = np.ones((100, 1))
    logits = np.where(np.arange(100) < 80, 1.0, -1.0)[:, None]
    low, high = bootstrap("accuracy", "binary", logits, y, "ood_test")
    assert low == pytest.approx(72.2, abs=1.1)
    assert high == pytest.approx(87.8, abs=1.1)


def test_an_interval_is_the_same_every_time_and_hangs_on_the_split():
    logits, y = made("binary", 1)
    one, two = (bootstrap("roc_auc", "binary", logits, y, "ood_val") for _ in range(2))
    assert one == two
    assert one != bootstrap("roc_auc", "binary", logits, y, "ood_test")


def test_many_graphs_are_drawn_in_parts(monkeypatch):
    from gsx.stages.train import confidence_intervals as intervals

    logits, y = made("binary", 1)
    seen = []
    resample = resampled

    def watched(metric, task, logits, y, times):
        seen.append(len(times))
        return resample(metric, task, logits, y, times)

    monkeypatch.setattr(intervals, "BLOCK", 300 * len(y))
    monkeypatch.setattr(intervals, "resampled", watched)
    bootstrap("accuracy", "binary", logits, y, "ood_test")
    assert seen == [300, 300, 300, 100]
    assert sum(seen) == RESAMPLES


def test_the_interval_of_a_mean_is_students():
    # Mean 52, std 2, three seeds: 52 ± 4.302653 * 2 / sqrt(3).
    assert t_interval([50.0, 52.0, 54.0]) == (47.0317, 56.9683)
    assert t_interval([50.0, 54.0]) == (26.5876, 77.4124)
    assert t_interval([50.0]) is None


@pytest.mark.parametrize(
    ("metric", "task", "y", "reason"),
    [
        ("roc_auc", "binary", [[1.0], [1.0]], "all labels are of one class"),
        ("mcc", "classification", [[1.0, 0.0], [1.0, 0.0]], "all labels are of one class"),
        ("accuracy", "binary", [[NAN], [NAN]], "no graph has a label"),
        ("roc_auc", "classification", np.eye(3), "it is for two classes, and there are 3"),
        ("accuracy", "binary", [[1.0], [1.0]], None),
    ],
)
def test_a_metric_without_meaning_says_why(metric, task, y, reason):
    assert why_undefined(metric, task, np.array(y)) == reason
