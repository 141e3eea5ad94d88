"""Checks of the report: guarantees, nearness to OOD graphs, and trends of labels over size."""

import dataclasses

import numpy as np
import pytest

from gsx.ragged import Ragged
from gsx.schema import ORIGINS, SPLITS, CorpusInfo, Environment
from gsx.stages.augmented.check import Check, failed_check_warnings
from gsx.stages.report.coverage import project_groups
from gsx.stages.report.coverage_checks import nearness_check, trend_check
from gsx.stages.report.page import _checks, checks_tile
from gsx.stages.report.sample import GraphColumns


def corpus_info(task="regression", outputs=("value",)):
    return CorpusInfo(outputs=outputs, domain="size", name="x", columns=(), num_features=1,
                      task=task, environments=(Environment(id=0, name="e"),))  # fmt: skip


def test_guarantees_are_listed_apart_from_checks_and_count_only_if_violated():
    violated = Check("bad", "Edges exist in parents", "99.0%", "1 is not.", by_construction=True)
    kept = dataclasses.replace(violated, verdict="good", title="Graphs are connected")
    html = _checks((violated, kept))
    assert html.startswith('<ul class="checks"><li class="bad">')
    shown, _, guaranteed = html.partition("<details>")
    assert "Graphs are connected" not in shown
    assert "Graphs are connected" in guaranteed
    assert "1 property that generation guarantees was recomputed and holds" in guaranteed
    assert "0 of 1" in next(checks_tile((violated, kept)))
    assert list(checks_tile((kept,))) == []
    assert failed_check_warnings((violated, kept)) == [
        "check failed: Edges exist in parents: 99.0%. 1 is not. Compare recipes with "
        "`gsx recommend`."
    ]


def test_graphs_that_point_away_from_ood_graphs_are_flagged():
    rng = np.random.default_rng(0)
    shift = {"train": 0.0, "augmented": -3.0, "ood_val": 3.0, "ood_test": 3.0}
    sizes = {"train": 400, "augmented": 100, "ood_val": 60, "ood_test": 60}
    vectors = {name: rng.normal(shift[name], 1, (sizes[name], 3)) for name in shift}
    _, distances = project_groups(vectors)
    (check,) = nearness_check(distances)
    assert check.verdict == "note"
    assert "Generated graphs point away from OOD validation and OOD test." in check.text
    _, distances = project_groups({**vectors, "augmented": vectors["augmented"] + 6})
    (check,) = nearness_check(distances)
    assert check.verdict == "good"
    assert float(check.figure.rstrip("%")) > 90


def test_equal_numbers_of_graphs_are_compared():
    """More source graphs of the same distribution are not nearer."""
    rng = np.random.default_rng(1)
    vectors = {name: rng.normal(0, 1, (size, 4)) for name, size in
               (("train", 1500), ("augmented", 150), ("ood_test", 300))}  # fmt: skip
    _, (row,) = project_groups(vectors)
    assert row["nearer"] == pytest.approx(0.5, abs=0.08)
    assert row["to_source"] == pytest.approx(row["to_augmented"], rel=0.1)


def test_without_generated_graphs_there_is_no_check():
    _, distances = project_groups({"train": np.eye(3), "ood_test": np.eye(3)})
    assert list(nearness_check(distances)) == []


def columns_of(nodes, y, origin):
    count = len(nodes)
    zeros = np.zeros(count, dtype=np.int64)
    return GraphColumns(
        graph_id=np.arange(count), split=zeros + SPLITS.index("train"), env=zeros,
        origin=np.array([ORIGINS.index(name) for name in origin]), label=zeros - 1,
        nodes=np.asarray(nodes), edges=zeros, y=np.asarray(y, dtype=np.float64)[:, None],
        parents=Ragged(np.zeros(count + 1, dtype=np.int64), zeros[:0]),
    )  # fmt: skip


def test_averaged_labels_of_larger_graphs_contradict_a_trend_over_size():
    nodes = np.arange(10, 110)
    source = ["source"] * 100
    y = -nodes / 10.0
    averaged = columns_of([*nodes, *(2 * nodes)], [*y, *y], [*source, *(["g_whole"] * 100)])
    (check,) = trend_check(corpus_info(), averaged)
    assert check.verdict == "bad"
    assert check.figure == "0 of 1"
    assert "the target `value` falls with size in training" in check.text
    summed = columns_of([*nodes, *(2 * nodes)], [*y, *(2 * y)], [*source, *(["g_whole"] * 100)])
    (check,) = trend_check(corpus_info(), summed)
    assert check.verdict == "good"
    flat = columns_of([*nodes, *(2 * nodes)], np.ones(200), [*source, *(["g_whole"] * 100)])
    assert list(trend_check(corpus_info(), flat)) == []
