"""Quality metrics of spliced graphs: sizes, labels, duplicates, rejected draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array
from gsx.stages.augmented.label_trends import trend_sums
from gsx.stages.graphs.subgraphs import is_connected
from gsx.table import GraphTable

SUMMED = (
    "graphs", "nodes", "below", "above", "disconnected", "bridges", "slots", "soft", "entropy",
)  # fmt: skip
"""Statistics that add up over tables and shards."""


SUMMED_LISTS = ("y_sum", "y_count", "y_log_size")
"""The same, with one value per task."""


def graph_sums(table: GraphTable, train_sizes: tuple[int, int], task: str) -> dict[str, Any]:
    """Return mergeable statistics of some spliced graphs.

    ``train_sizes`` are the minimum and maximum number of nodes of training graphs.
    """
    nodes = table.num_nodes
    bridges = np.diff(table.lists("graph", "provenance.bridges").ptr) // 2
    slots = np.diff(table.lists("graph", "provenance.parents").ptr)
    entropy = label_entropy(table.dense("graph", "y"), task)
    return {
        "graphs": len(table),
        "nodes": int(nodes.sum()),
        "min_nodes": int(nodes.min()),
        "max_nodes": int(nodes.max()),
        "below": int((nodes < train_sizes[0]).sum()),
        "above": int((nodes > train_sizes[1]).sum()),
        "disconnected": int((~is_connected(table)).sum()),
        "bridges": int(bridges.sum()),
        "slots": int(slots.sum()),
        "soft": int((entropy > 0).sum()),
        "entropy": float(entropy.sum()),
        **trend_sums(table),
    }


def merge_sums(sums: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge statistics of several tables or shards."""
    return {
        **{name: sum(stats[name] for stats in sums) for name in SUMMED},
        **{name: np.sum([stats[name] for stats in sums], axis=0).tolist() for name in SUMMED_LISTS},
        "min_nodes": min(stats["min_nodes"] for stats in sums),
        "max_nodes": max(stats["max_nodes"] for stats in sums),
    }


def label_entropy(y: Array, task: str) -> Array:
    """Return the entropy of every label in nats, summed over tasks; 0 for regression."""
    if task == "regression":
        return np.zeros(len(y))
    p = np.nan_to_num(y.astype(np.float64))
    terms = -p * np.log(np.where(p > 0, p, 1))
    if task != "classification":
        terms = terms - (1 - p) * np.log(np.where(p < 1, 1 - p, 1))
    return np.asarray(terms.sum(axis=1))


def option_quality(
    shards: Sequence[Mapping[str, Any]], duplicates: Mapping[str, int]
) -> dict[str, Any]:
    """Return the quality metrics of one option from the statistics of its shards."""
    total = merge_sums(shards)
    graphs = total["graphs"]
    rejected: dict[str, int] = {}
    for stats in shards:
        for reason, count in stats["rejected"].items():
            rejected[reason] = rejected.get(reason, 0) + count
    return {
        "graphs": graphs,
        "min_nodes": total["min_nodes"],
        "mean_nodes": round(total["nodes"] / graphs, 3),
        "max_nodes": total["max_nodes"],
        "smaller_than_training": round(total["below"] / graphs, 6),
        "larger_than_training": round(total["above"] / graphs, 6),
        "disconnected": total["disconnected"],
        "components_per_graph": round(total["slots"] / graphs, 4),
        "bridges_per_joint": _ratio(total["bridges"], total["slots"] - graphs),
        "soft_labels": round(total["soft"] / graphs, 6),
        "label_entropy": round(total["entropy"] / graphs, 6),
        **duplicates,
        "rejected": dict(sorted(rejected.items())),
        "accepted_at_first": round(
            1 - sum(stats["first_rejected"] for stats in shards) / graphs, 6
        ),
        **{
            name: shards[0][name] for name in ("molecules", "causal_subgraphs") if name in shards[0]
        },
    }


def _ratio(numerator: int, denominator: int) -> float | None:
    return round(numerator / denominator, 4) if denominator else None
