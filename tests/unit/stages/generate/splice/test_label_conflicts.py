"""Label conflicts between equal causal subgraphs."""

import numpy as np
import pytest

from gsx.stages.generate.splice.component_pool import build_component_pool
from gsx.stages.generate.splice.label_conflicts import label_causal_subgraphs
from tests.support.graph_tables import table_from_edges

TRIANGLE = [(0, 1), (1, 2), (0, 2)]
TAILED = (5, [*TRIANGLE, (2, 3), (3, 4)])
SQUARE = (5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)])


def resolve(graphs, keep, y, rule="merge", min_nodes=3, labelled=None):
    """Label the causal subgraphs of some graphs, given their nodes."""
    table = table_from_edges(*graphs)
    train = table.with_columns(node={"node_feat": np.ones((table.total_nodes, 1), np.float32)})
    kept = np.concatenate(
        [np.isin(np.arange(count), nodes) for (count, _), nodes in zip(graphs, keep, strict=True)]
    )
    pool = build_component_pool(train, kept, None)
    y = np.array(y, dtype=np.float32).reshape(len(graphs), -1)
    present = ~np.isnan(y).all(axis=1)
    return label_causal_subgraphs(
        pool, pool.by_source_row(len(graphs)), train, y, present, rule, min_nodes
    )


def test_equal_subgraphs_with_different_labels_get_their_mean():
    keep = [[0, 1, 2]] * 3 + [[0, 1, 2, 3]]
    labels = resolve([TAILED] * 3 + [SQUARE], keep, [1, 0, 1, 0])
    assert labels.y[:, 0] == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0])
    assert labels.usable.all()
    assert labels.counts == {
        "subgraphs": 4, "too_small": 0, "distinct": 2, "in_conflict": 3, "distinct_in_conflict": 1,
        "outvoted": 1,
    }  # fmt: skip


def test_conflicts_are_rejected_or_kept():
    keep = [[0, 1, 2]] * 2 + [[0, 1, 2, 3]]
    graphs = [TAILED, TAILED, SQUARE]
    rejected = resolve(graphs, keep, [1, 0, 1], "reject")
    assert rejected.usable.tolist() == [False, False, True]
    kept = resolve(graphs, keep, [1, 0, 1], "keep")
    assert kept.usable.all()
    assert kept.y[:, 0].tolist() == [1, 0, 1]


def test_missing_labels_do_not_conflict_and_tasks_are_independent():
    keep = [[0, 1, 2]] * 3
    nan = np.nan
    labels = resolve([TAILED] * 3, keep, [[1, nan], [nan, 0], [1, 1]])
    assert labels.y.tolist() == [[1, 0.5]] * 3
    assert labels.counts["in_conflict"] == 3
    same = resolve([TAILED] * 3, keep, [[1, nan], [nan, 0], [1, 0]])
    assert same.counts["in_conflict"] == 0


def test_a_training_graph_that_equals_the_subgraph_decides_its_label():
    labels = resolve([TAILED, TAILED, (3, TRIANGLE)], [[0, 1, 2]] * 2 + [[0, 1, 2]], [1, 1, 0])
    assert labels.y[:, 0].tolist() == [0, 0, 0]
    assert resolve([TAILED, (3, TRIANGLE)], [[0, 1, 2], [0]], [1, 0], "reject").usable.tolist() == [
        False,
        False,
    ]


def test_small_subgraphs_are_left_out():
    keep = [[0], [0, 1], [0, 1, 2]]
    labels = resolve([TAILED] * 3, keep, [1, 0, 1])
    assert labels.usable.tolist() == [False, False, True]
    assert labels.counts["too_small"] == 2
    assert resolve([TAILED] * 3, keep, [1, 0, 1], min_nodes=1).usable.all()


def test_rows_without_a_subgraph_or_label_are_not_used():
    labels = resolve([TAILED] * 3, [[], [0, 1, 2], [0, 1, 2]], [1, np.nan, 0])
    assert labels.usable.tolist() == [False, False, True]
    assert labels.counts["subgraphs"] == 1
