"""The decision rule: paired differences with intervals, and a threshold for several recipes."""

import numpy as np
import pytest

from gsx.pipeline.recommend.decide import Difference, choose, paired_differences, threshold
from gsx.stages.train.metrics import score

GRAPHS = 200


def labels():
    y = np.zeros((GRAPHS, 2))
    y[np.arange(GRAPHS), np.arange(GRAPHS) % 2] = 1
    return y


def predictions(y, accuracy, seed):
    """Return logits that predict a share of the graphs right, others chosen per seed."""
    stream = np.random.default_rng(seed)
    right = np.zeros(len(y), dtype=bool)
    right[stream.permutation(len(y))[: round(accuracy * len(y))]] = True
    return np.where(right[:, None], y, 1 - y)


def differences(better, worse, metric="accuracy", y=None):
    y = labels() if y is None else y
    return paired_differences(
        metric, "classification", y, {"none": worse, "grow": better}, "none", "test"
    )["grow"]


def test_a_clear_gain_has_a_high_probability_and_a_positive_interval():
    y = labels()
    value = differences(
        [predictions(y, 0.9, s) for s in range(5)], [predictions(y, 0.7, 9 + s) for s in range(5)]
    )
    assert value.mean == pytest.approx(20)
    assert 10 < value.low < 20 < value.high < 30
    assert value.probability > 0.999


def test_a_loss_has_a_low_probability():
    y = labels()
    value = differences([predictions(y, 0.6, 1)] * 3, [predictions(y, 0.8, 2)] * 3)
    assert value.mean == pytest.approx(-20)
    assert value.probability < 0.01


def test_equal_predictions_are_undecided():
    run = predictions(labels(), 0.8, 1)
    value = differences([run] * 3, [run] * 3)
    assert (value.mean, value.low, value.high, value.probability) == (0, 0, 0, 0.5)


def test_the_interval_covers_seeds_as_well_as_graphs():
    y = labels()
    worse = [predictions(y, 0.8, s) for s in range(5)]
    steady = [predictions(y, 0.82, 20 + s) for s in range(5)]
    wild = [predictions(y, share, 20 + s) for s, share in enumerate((0.6, 0.95, 0.97, 0.6, 0.98))]
    narrow, wide = differences(steady, worse), differences(wild, worse)
    assert narrow.mean == pytest.approx(wide.mean)
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


def test_lower_errors_are_better():
    y = np.random.default_rng(0).normal(size=(100, 1))
    value = paired_differences(
        "rmse", "regression", y, {"none": [y + 1.0] * 3, "grow": [y + 0.5] * 3}, "none", "test"
    )["grow"]
    assert (value.mean, value.probability) == (0.5, 1.0)


def test_only_common_seeds_are_compared():
    y = labels()
    worse = [predictions(y, 0.7, s) for s in range(5)]
    value = differences([predictions(y, 0.8, 7)] * 2, worse)
    expected = 80 - np.mean([score("accuracy", "classification", run, y) for run in worse[:2]])
    assert value.mean == pytest.approx(expected)


def test_the_same_runs_give_the_same_interval():
    y = labels()
    runs = [predictions(y, 0.8, 1)] * 3, [predictions(y, 0.7, 2)] * 3
    assert differences(*runs) == differences(*runs)


def difference(mean, probability):
    return Difference(mean=mean, low=mean - 1, high=mean + 1, probability=probability)


def test_the_threshold_grows_with_the_number_of_recipes():
    assert threshold(1) == pytest.approx(0.95)
    assert threshold(5) == pytest.approx(0.99)
    assert choose({"grow": difference(3, 0.97)}, 1) == "grow"
    assert choose({"grow": difference(3, 0.97)}, 3) is None


def test_the_largest_gain_among_those_above_the_threshold_is_chosen():
    values = {
        "grow": difference(3, 0.999),
        "swap": difference(5, 0.999),
        "paper": difference(9, 0.8),
        "shrink": difference(-1, 1.0),
    }
    assert choose(values, 4) == "swap"


def test_false_recommendations_are_rare_if_nothing_helps():
    """Recipes that are as good as `none` are recommended in about 5 % of the cases, not more."""
    y, wrong, trials = labels(), 0, 60
    for trial in range(trials):
        runs = {
            name: [predictions(y, 0.8, 1000 * trial + 10 * index + s) for s in range(5)]
            for index, name in enumerate(("none", "grow", "swap", "shrink"))
        }
        values = paired_differences("accuracy", "classification", y, runs, "none", "t")
        wrong += choose(values, 3) is not None
    assert wrong <= 0.1 * trials
