"""Predictions of ensembles: means, spread and uncertainty, and the names of their columns."""

import numpy as np
import pytest

from gsx.stages.train.ensemble import combine, prediction_columns, probabilities


def logit(p):
    return np.log(p / (1 - p))


def test_probabilities_of_every_task():
    logits = np.array([[0.0, np.log(3)]])
    assert probabilities("classification", logits) == pytest.approx(np.array([[0.25, 0.75]]))
    assert probabilities("multitask", logits) == pytest.approx(np.array([[0.5, 0.75]]))
    assert np.array_equal(probabilities("regression", logits), logits)


def test_models_that_agree_have_an_entropy_but_no_mutual_information():
    prediction = combine("binary", [np.array([[0.0]])] * 3)
    assert prediction.mean.tolist() == [[0.5]]
    assert prediction.std.tolist() == [[0.0]]
    assert prediction.entropy == pytest.approx([1.0])
    assert prediction.mutual_information == pytest.approx([0.0])


def test_confident_models_that_disagree_have_mutual_information():
    """Each model is nearly certain, so that almost the whole bit is disagreement."""
    prediction = combine("binary", [np.array([[30.0]]), np.array([[-30.0]])])
    assert prediction.mean == pytest.approx(np.array([[0.5]]))
    assert prediction.std == pytest.approx(np.array([[np.sqrt(0.5)]]))
    assert prediction.mutual_information == pytest.approx([1.0])


def test_entropies_of_classes_and_tasks_in_bits():
    logits = np.log(np.array([[0.5, 0.25, 0.25]]))
    assert combine("classification", [logits]).entropy == pytest.approx([1.5])
    two_tasks = logit(np.array([[0.5, 0.11]]))
    assert combine("multitask", [two_tasks]).entropy == pytest.approx([(1 + 0.499916) / 2])


def test_one_model_has_no_spread_and_regression_no_entropy():
    one = combine("regression", [np.array([[2.0]])])
    assert (one.std, one.entropy, one.mutual_information) == (None, None, None)
    several = combine("regression", [np.array([[2.0]]), np.array([[4.0]])])
    assert several.mean.tolist() == [[3.0]]
    assert several.std == pytest.approx(np.array([[np.sqrt(2)]]))
    assert several.entropy is None


def test_columns_are_named_after_outputs_and_never_repeated():
    prediction = combine("multitask", [np.zeros((1, 2)), np.ones((1, 2))])
    columns = prediction_columns(prediction, "multitask", ["a", "a std"], taken=("entropy",))
    assert list(columns) == [
        "p_a",
        "p_a_std",
        "p_a_std_2",
        "p_a_std_std",
        "entropy_2",
        "mutual_information",
    ]


def test_a_missing_prediction_has_no_class():
    logits = np.array([[1.0, 2.0], [np.nan, np.nan]])
    columns = prediction_columns(combine("classification", [logits]), "classification", ["x", "y"])
    assert columns["predicted"] == ["y", ""]
    assert np.isnan(columns["p_x"]).tolist() == [False, True]
