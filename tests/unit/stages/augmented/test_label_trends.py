"""Warnings about labels that contradict the training trend over size."""

import msgspec
import numpy as np
import pytest

from gsx.ragged import pointers
from gsx.seeds import rng
from gsx.stages.augmented.label_trends import trend_sums, trend_warnings
from gsx.stages.prepare.synthetic import motif
from gsx.table import GraphTable

STREAM = rng(0, "trend")
NODES = STREAM.integers(10, 40, 600)


def graphs(nodes, y):
    """Return graphs without edges, of some sizes and labels."""
    none = np.zeros(0, dtype=np.int32)
    return GraphTable(
        pointers(nodes),
        pointers(np.zeros(len(nodes), dtype=np.int64)),
        graph={"y": np.asarray(y, dtype=np.float32).reshape(len(nodes), -1)},
        edge={"edge_src": none, "edge_dst": none},
    )


def warnings_of(train_y, nodes, y, rule="average", **changes):
    info = msgspec.structs.replace(motif.corpus_info("motif-size"), **changes)
    train_y = np.asarray(train_y, dtype=np.float32).reshape(len(NODES), -1)
    sums = trend_sums(graphs(nodes, y))
    return list(trend_warnings(3, sums, NODES, train_y, info, rule))


REGRESSION = {"task": "regression", "metric": "rmse", "outputs": ("solubility",)}
FALLING = -0.1 * NODES + STREAM.normal(0, 0.5, len(NODES))


def test_averaged_values_that_depend_on_size_are_reported():
    (text,) = warnings_of(FALLING, NODES + 40, FALLING, **REGRESSION)
    assert text.startswith("option 3: the target `solubility` falls with size in training")
    assert text.endswith("use `--labels sum` or `--labels size-scaled`.")
    assert warnings_of(FALLING, NODES + 40, FALLING - 4, "size-scaled", **REGRESSION) == []
    assert warnings_of(FALLING, NODES, FALLING, **REGRESSION) == []  # the same sizes


def test_values_that_do_not_depend_on_size_are_not_reported():
    noise = STREAM.normal(size=len(NODES))
    assert warnings_of(noise, NODES + 40, noise - 3, **REGRESSION) == []


def test_rates_that_move_against_the_trend_are_reported():
    binary = {"task": "binary", "metric": "roc_auc", "outputs": ("active",)}
    y = (STREAM.random(len(NODES)) < NODES / 60).astype(float)
    (text,) = warnings_of(y, NODES * 3, 0 * y, **binary)
    assert "the rate of `active` rises with size in training" in text
    assert "which predicts 86.0% at the sizes of the new graphs; their labels have 0.0%" in text
    assert warnings_of(y, NODES * 3, 0 * y + 1, **binary) == []


def test_missing_labels_do_not_count():
    y = np.where(np.arange(len(NODES)) % 2, FALLING, np.nan)
    (text,) = warnings_of(y, NODES + 40, y, **REGRESSION)
    assert "falls with size" in text
    assert warnings_of(np.full(len(NODES), np.nan), NODES, y, **REGRESSION) == []


def test_sums_ignore_missing_labels():
    sums = trend_sums(graphs([1, 3], [[1, np.nan], [2, 5]]))
    assert sums["y_sum"] == [3, 5]
    assert sums["y_count"] == [2, 1]
    assert sums["y_log_size"] == pytest.approx([np.log(3), np.log(3)])
