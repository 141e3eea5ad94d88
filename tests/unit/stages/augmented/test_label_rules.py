"""Label rules of spliced graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.stages.augmented.label_rules import (
    Sizes,
    average_labels,
    dominant_labels,
    hard_labels,
    size_slope,
    spliced_labels,
)

NAN = np.nan


def y(*rows):
    return np.array(rows, dtype=np.float32)


def test_environmental_subgraphs_do_not_count_in_the_average():
    labels = y([1, 0, 0], [0, 1, 0], [0, 0, 1])
    averaged = average_labels(labels, np.array([1.0, 1.0, 0.0]), np.array([3]))
    assert averaged.tolist() == [[0.5, 0.5, 0.0]]


def test_coefficients_weight_the_average():
    labels = y([1, 0], [0, 1])
    assert average_labels(labels, np.array([3.0, 1.0]), np.array([2])).tolist() == [[0.75, 0.25]]


def test_missing_tasks_do_not_count_and_stay_missing_without_any_label():
    labels = y([1, NAN, NAN], [0, 1, NAN])
    averaged = average_labels(labels, np.array([1.0, 1.0]), np.array([2]))
    assert averaged[0, :2].tolist() == [0.5, 1.0]
    assert np.isnan(averaged[0, 2])


def test_regression_targets_are_averaged():
    assert average_labels(y([1.5], [3.5]), np.ones(2), np.array([2])).tolist() == [[2.5]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6))
def test_averages_of_classes_sum_to_one(components):
    labels = np.eye(3, dtype=np.float32)[[label for label, _ in components]]
    coefficients = np.array([coefficient for _, coefficient in components], dtype=float)
    averaged = average_labels(labels, coefficients, np.array([len(components)]))
    if coefficients.sum():
        np.testing.assert_allclose(averaged.sum(), 1, rtol=1e-6)
    else:
        assert np.isnan(averaged).all()


def test_dominant_answers_ignore_environmental_subgraphs():
    labels = y([0, 0], [0, 1], [1, 1], [1, 0])
    coefficients, counts = np.array([1.0, 1.0, 0.0, 2.0]), np.array([3, 1])
    assert dominant_labels(labels, coefficients, counts, 1).tolist() == [[0, 1], [1, 0]]
    assert dominant_labels(labels, coefficients, counts, 0).tolist() == [[0, 0], [1, 0]]


def test_missing_answers_leave_a_task_missing_unless_another_dominates():
    labels = y([NAN, NAN, NAN], [1, 0, NAN])
    by_or = dominant_labels(labels, np.ones(2), np.array([2]), 1)[0]
    assert by_or[0] == 1
    assert np.isnan(by_or[1:]).all()
    assert dominant_labels(labels, np.ones(2), np.array([2]), 0)[0, 1] == 0


@pytest.mark.parametrize(("rule", "expected"), [("average", 0.5), ("any", 1.0), ("all", 0.0)])
def test_the_rule_selects_mean_or_and(rule, expected):
    assert spliced_labels(rule, y([1], [0]), np.ones(2), np.array([2])).tolist() == [[expected]]
    assert spliced_labels(rule, y([1]), np.ones(1), np.array([1])).tolist() == [[1.0]]


def test_labels_are_hard_only_without_mixing():
    assert hard_labels(y([1, 0], [0.5, 0.5], [0, 1]), "classification").tolist() == [0, -1, 1]
    assert hard_labels(y([1], [0.5], [0]), "binary").tolist() == [1, -1, 0]
    assert hard_labels(y([1, 0]), "multitask").tolist() == [-1]
    assert hard_labels(y([2.5]), "regression").tolist() == [-1]


def test_sum_adds_the_labels_of_voting_components():
    labels = y([1.5, np.nan], [2.5, 1.0], [9.0, 9.0])
    summed = spliced_labels("sum", labels, np.array([1.0, 1.0, 0.0]), np.array([3]))
    assert summed[0, 0] == 4
    assert np.isnan(summed[0, 1])


def test_size_scaled_labels_follow_the_trend_of_training_graphs():
    nodes = np.array([5, 10, 20, 25])
    labels = (2.0 - 0.5 * nodes[:, None]).astype(np.float32)
    slope = size_slope(nodes, labels)
    assert slope == pytest.approx([-0.5])
    sizes = Sizes(parents=nodes[:2], graphs=np.array([15]), slope=slope)
    scaled = spliced_labels("size-scaled", labels[:2], np.ones(2), np.array([2]), sizes)
    assert scaled[0, 0] == pytest.approx(2.0 - 0.5 * 15)


def test_labels_without_a_trend_have_the_slope_zero():
    missing = np.array([[np.nan, 1.0], [np.nan, 3.0]])
    assert size_slope(np.array([4, 4]), missing).tolist() == [0, 0]
