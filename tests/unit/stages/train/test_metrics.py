"""Metrics equal values computed by hand."""

import numpy as np
import pytest

from gsx.stages.train.metrics import is_better, score

NAN = float("nan")


def test_accuracy_is_the_percentage_of_correct_classes():
    logits = np.array([[3.0, 1, 0], [0, 1, 2], [0, 5, 1], [1, 0, 0]])
    y = np.eye(3)[[0, 2, 0, 0]]
    assert score("accuracy", "classification", logits, y) == 75.0


def test_accuracy_of_several_tasks_ignores_missing_labels():
    logits = np.array([[2.0, -1.0], [1.0, 1.0]])
    y = np.array([[1.0, NAN], [0.0, 1.0]])
    assert score("accuracy", "multitask", logits, y) == pytest.approx(66.6667)


def test_roc_auc_counts_ordered_pairs_and_half_of_ties():
    # Pairs of a positive (0.8, 0.5) and a negative (0.5, 0.1): three in order, one tie.
    logits = np.array([[0.8], [0.5], [0.5], [0.1]])
    y = np.array([[1.0], [1.0], [0.0], [0.0]])
    assert score("roc_auc", "binary", logits, y) == 87.5


def test_roc_auc_is_the_mean_over_tasks_with_both_classes():
    logits = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 5.0]])
    y = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, NAN]])
    assert score("roc_auc", "multitask", logits, y) == 50.0


def test_mcc_of_two_classes_is_the_phi_coefficient():
    # TP 3, FN 1, FP 2, TN 4: (12 - 2) / sqrt(5 * 4 * 6 * 5) = 0.4082
    truth = np.array([1] * 4 + [0] * 6)
    predicted = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    logits = np.where(predicted == 1, 1.0, -1.0)[:, None]
    assert score("mcc", "binary", logits, truth[:, None].astype(float)) == 0.4082


def test_mcc_of_three_classes_is_one_if_all_are_correct_and_zero_for_constant_predictions():
    y = np.eye(3)[[0, 1, 2, 2]]
    assert score("mcc", "classification", y, y) == 1.0
    assert score("mcc", "classification", np.tile([1.0, 0, 0], (4, 1)), y) == 0.0


def test_rmse_is_in_the_unit_of_the_labels():
    assert score("rmse", "regression", np.array([[1.0], [5.0]]), np.array([[4.0], [1.0]])) == 3.5355


def test_undefined_scores_are_none():
    ones = np.ones((3, 1))
    assert score("roc_auc", "binary", ones, ones) is None
    assert score("mcc", "binary", ones, ones) is None
    assert score("accuracy", "binary", ones, ones * NAN) is None
    assert score("rmse", "regression", ones, ones * NAN) is None
    assert score("roc_auc", "classification", np.eye(3), np.eye(3)) is None


def test_lower_is_better_for_rmse_only():
    assert is_better("rmse", 1.0, 2.0)
    assert is_better("accuracy", 2.0, 1.0)
    assert not is_better("accuracy", 2.0, 2.0)
