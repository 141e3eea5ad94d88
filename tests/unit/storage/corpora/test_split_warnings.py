"""Warnings about small test splits."""

import msgspec
import numpy as np
import pytest

from gsx.seeds import rng
from gsx.stages.prepare.synthetic import motif
from gsx.storage.corpora.split_warnings import auc_standard_error, small_split_warnings


def warnings_of(labels, split="ood_test", **changes):
    info = msgspec.structs.replace(motif.corpus_info("motif-size"), **changes)
    total = sum(labels) or 20
    groups = [
        {"split": "train", "count": 1, "labels": [1] + [0] * (len(labels) - 1)},
        {"split": split, "count": total, "labels": labels},
    ]
    return list(small_split_warnings(info, groups))


BINARY = {"task": "binary", "metric": "roc_auc", "outputs": ("active",)}


def test_few_positives_widen_the_interval_of_the_roc_auc():
    assert warnings_of([42, 5], **BINARY) == [
        "ood_test has only 5 of 47 graphs of class `1`: expect a 95 % interval of about ±26 points "
        "of ROC-AUC"
    ]
    assert warnings_of([300, 30], **BINARY) == []
    assert warnings_of([42, 5], split="train", **BINARY) == []


def test_a_class_without_examples_is_not_tested():
    assert "its score is undefined" in warnings_of([42, 0], **BINARY)[0]
    (text,) = warnings_of([40, 40, 0])
    assert text == "ood_test has only 0 of 80 graphs of class `crane`: it is not tested"


def test_accuracy_of_the_rarest_class():
    (text,) = warnings_of([40, 12, 40])
    assert "12 of 92 graphs of class `cycle`: expect a 95 % interval of up to ±28 points" in text


def test_splits_without_classes_are_measured_by_their_size():
    assert warnings_of([0, 0], task="regression", metric="rmse")[0] == (
        "ood_test has only 20 graphs: expect a wide 95 % interval of RMSE, ±31% of its value"
    )
    assert "of any score" in warnings_of([0, 0], task="multitask")[0]


def test_standard_error_agrees_with_simulated_scores():
    positives, negatives, shift = 12, 60, 0.954  # two normal distributions with ROC-AUC .75
    stream = rng(0, "auc")
    scores = []
    for _ in range(4000):
        high, low = stream.normal(shift, 1, positives), stream.normal(0, 1, negatives)
        scores.append((high[:, None] > low[None]).mean())
    assert np.mean(scores) == pytest.approx(0.75, abs=0.01)
    assert np.std(scores) == pytest.approx(auc_standard_error(positives, negatives), rel=0.15)
