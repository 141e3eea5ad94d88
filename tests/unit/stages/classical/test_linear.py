"""Linear models: soft labels, missing labels, tasks with one class, determinism."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from gsx.errors import StageError
from gsx.stages.classical.linear import fit_linear
from gsx.stages.train.metrics import score

SCALINGS = ("norm", "std", "max")


def examples(seed=0, count=400, width=6, classes=3):
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, width)) * (random.random((count, width)) < 0.6)
    label = (features @ random.normal(size=(width, classes))).argmax(axis=1)
    return csr_array(features.astype(np.float32)), np.eye(classes, dtype=np.float32)[label]


def probabilities(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_classes_are_learned(scaling):
    features, y = examples()
    model = fit_linear(
        features, y, task="classification", strength=0.01, scaling=scaling
    )  # fmt: skip
    assert score("accuracy", "classification", model.predict(features), y) > 95


@pytest.mark.parametrize("classes", [2, 3])
def test_a_soft_label_is_one_example_per_class(classes):
    features, y = examples(1, classes=classes)
    soft = 0.7 * y + 0.3 / classes
    model = fit_linear(features, soft, task="classification", strength=0.5)
    rows = np.repeat(np.arange(len(y)), classes)
    hard = np.tile(np.eye(classes, dtype=np.float32), (len(y), 1))
    # A copy of every example counts `classes` times as much relative to the penalty.
    copies = fit_linear(
        features[rows], hard, task="classification", strength=0.5 * classes, weights=soft.ravel()
    )
    np.testing.assert_allclose(model.predict(features), copies.predict(features), atol=1e-3)


def test_soft_labels_are_predicted_as_probabilities():
    y = np.tile(np.array([[0.2, 0.8]], dtype=np.float32), (500, 1))
    features = csr_array(np.ones((500, 1), dtype=np.float32))
    model = fit_linear(features, y, task="classification", strength=0.1)
    np.testing.assert_allclose(probabilities(model.predict(features)), y, atol=1e-3)
    single = fit_linear(features, y[:, 1:], task="binary", strength=0.1)
    np.testing.assert_allclose(1 / (1 + np.exp(-single.predict(features))), y[:, 1:], atol=1e-3)


def test_two_classes_and_one_binary_task_agree():
    features, y = examples(2, classes=2)
    classes = fit_linear(features, y, task="classification", strength=0.3).predict(features)
    binary = fit_linear(features, y[:, 1:], task="binary", strength=0.3).predict(features)
    np.testing.assert_allclose(classes[:, 1] - classes[:, 0], binary[:, 0], atol=1e-6)


def test_missing_labels_are_left_out():
    features, y = examples(3)
    gaps = y.copy()
    gaps[::2, 0] = np.nan
    gaps[:, 2] = np.nan
    model = fit_linear(features, gaps, task="multitask", strength=0.1)
    alone = fit_linear(features[1::2], y[1::2, :1], task="binary", strength=0.1)
    assert score("roc_auc", "binary", model.predict(features)[:, :1], y[:, :1]) > 95
    # Scales are those of all rows; the order of examples stays.
    order = model.predict(features)[1::2, 0].argsort()
    assert np.corrcoef(alone.predict(features[1::2])[order, 0], np.arange(len(order)))[0, 1] > 0.9
    assert (model.weights[:, 2] == 0).all()
    assert model.bias[2] == 0

    rows = y.copy()
    rows[::2] = np.nan
    dropped = fit_linear(features, rows, task="classification", strength=0.1)
    zeros = fit_linear(features, np.nan_to_num(rows), task="classification", strength=0.1)
    assert (dropped.weights == zeros.weights).all()


def test_a_task_with_one_class_predicts_its_rate():
    features, y = examples(4)
    one = np.ones((len(y), 1), dtype=np.float32)
    assert (fit_linear(features, one, task="binary", strength=1).predict(features) > 10).all()
    assert (fit_linear(features, 0 * one, task="binary", strength=1).predict(features) < -10).all()


def test_absent_classes_are_never_predicted():
    features, y = examples(5, classes=3)
    for kept in ([0, 2], [1]):
        inside = y[:, kept].any(axis=1)
        model = fit_linear(features[inside], y[inside], task="classification", strength=0.1)
        logits = model.predict(features)
        assert np.isfinite(logits).all()
        assert set(logits.argmax(axis=1)) <= set(kept)
    with pytest.raises(StageError, match="no training example has a label"):
        fit_linear(features, 0 * y, task="classification", strength=1)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_values_are_regressed(scaling):
    random = np.random.default_rng(6)
    features = csr_array(random.normal(size=(300, 4)).astype(np.float32))
    y = (features @ random.normal(size=(4, 2)) + [5, -3]).astype(np.float32)
    gaps = y.copy()
    gaps[::3, 1] = np.nan
    for target in (y, gaps):
        model = fit_linear(features, target, task="regression", strength=1e-6, scaling=scaling)
        assert score("rmse", "regression", model.predict(features), y) < 0.01
    constant = fit_linear(features, y, task="regression", strength=1e9).predict(features)
    np.testing.assert_allclose(constant, np.tile(y.mean(axis=0), (300, 1)), atol=0.01)


def test_weights_count_as_repetitions_and_have_no_unit():
    features, y = examples(7)
    weights = np.where(np.arange(len(y)) % 2, 3.0, 1.0)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    options = {"task": "classification", "scaling": "max"}
    one = fit_linear(features, y, strength=0.1, weights=weights, **options)
    double = fit_linear(features, y, strength=0.1, weights=8 * weights, **options)
    assert (one.weights == double.weights).all()
    copies = fit_linear(features[repeated], y[repeated], strength=0.2, **options)
    np.testing.assert_allclose(one.predict(features), copies.predict(features), atol=1e-2)


@pytest.mark.parametrize("task", ["classification", "multitask", "regression"])
def test_equal_input_gives_equal_bits(task):
    features, y = examples(8)
    one, two = (fit_linear(features, y, task=task, strength=0.1, seed=3) for _ in range(2))
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.bias.tobytes() == two.bias.tobytes()


def test_constant_and_empty_columns_do_no_harm():
    features, y = examples(9)
    wide = csr_array(np.column_stack([features.toarray(), np.full(len(y), 0.1), np.zeros(len(y))]))
    for scaling in SCALINGS:
        model = fit_linear(wide, y, task="classification", strength=0.1, scaling=scaling)
        assert np.isfinite(model.weights).all()
        assert np.abs(model.weights).max() < 100
    nothing = fit_linear(csr_array((len(y), 0)), y, task="classification", strength=0.1)
    np.testing.assert_allclose(
        probabilities(nothing.predict(csr_array((1, 0)))), [y.mean(0)], atol=1e-3
    )


def test_the_penalty_must_be_positive():
    features, y = examples()
    with pytest.raises(ValueError, match="strength must be positive"):
        fit_linear(features, y, task="classification", strength=0)
