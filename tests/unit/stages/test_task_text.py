"""Descriptions of tasks and caveats about labels, in dataset cards and reports."""

import msgspec
import pytest

from gsx.schema import CorpusInfo
from gsx.stages.export.card_text import _label_lines, quality_lines
from gsx.stages.task_text import label_header, task_description
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import motif


def info(**fields):
    return CorpusInfo(
        name="x", domain="size", columns=(), num_features=1, environments=(), **fields
    )


@pytest.mark.parametrize(
    ("fields", "description", "header"),
    [
        ({"outputs": ("a", "b")}, "Every graph is one of 2 classes (a, b), scored by accuracy.",
         "a / b"),
        ({"outputs": ("active",), "task": "binary", "metric": "roc_auc"},
         "Every graph has binary labels for active, scored by ROC-AUC.", "no / yes"),
        ({"outputs": ("p", "q"), "task": "multitask", "metric": "roc_auc"},
         "Every graph has binary labels for p, q, scored by ROC-AUC.", None),
        ({"outputs": ("logp",), "task": "regression", "metric": "rmse"},
         "Every graph has a value of logp, scored by RMSE.", None),
        ({"outputs": tuple(f"class {n}" for n in range(9)), "level": "node", "metric": "mcc"},
         "Every node is one of 9 classes (class 0, class 1, class 2, class 3, class 4, class 5 …),"
         " scored by MCC.", "labels, class by class"),
    ],
)  # fmt: skip
def test_description_and_header_of_every_task(fields, description, header):
    assert task_description(info(**fields)) == description
    assert label_header(info(**fields)) == header


def test_label_caveat_of_featx_does_not_mention_the_extractor(tmp_path):
    source = motif(Store.at(tmp_path)).manifest
    featx = {"extrapolated_features": 4, "extrapolated_nodes": 1680, "replicas": 4, "unchanged": 7}
    manifest = msgspec.structs.replace(
        source, stage="generate", summary={"quality": {"featx": featx}}
    )
    (line,) = _label_lines([manifest])
    assert line.startswith("Graphs with extrapolated features keep label and structure")
    assert quality_lines(manifest) == [
        "FeatX: 4 features of 1,680 nodes were extrapolated; 7 are unchanged."
    ]
