"""What a generated corpus is like beside its source: sizes, labels, duplicates, overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array
from gsx.stages.graphs.subgraphs import is_connected
from gsx.table import GraphTable

SUMS = (
    "graphs", "nodes", "below", "above", "disconnected", "bridges", "slots", "soft", "entropy",
)  # fmt: skip
"""Facts about shards that add up."""


def part_quality(table: GraphTable, train_sizes: tuple[int, int], task: str) -> dict[str, Any]:
    """Return sums over some graphs, which add up over parts and shards."""
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
    }


def added(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what is said of parts, or of shards."""
    return {
        **{name: sum(part[name] for part in parts) for name in SUMS},
        "min_nodes": min(part["min_nodes"] for part in parts),
        "max_nodes": max(part["max_nodes"] for part in parts),
    }


def label_entropy(y: Array, task: str) -> Array:
    """Return the entropy of every label in nats, summed over tasks; 0 for values."""
    if task == "regression":
        return np.zeros(len(y))
    p = np.nan_to_num(y.astype(np.float64))
    terms = -p * np.log(np.where(p > 0, p, 1))
    if task != "classification":
        terms = terms - (1 - p) * np.log(np.where(p < 1, 1 - p, 1))
    return np.asarray(terms.sum(axis=1))


def option_quality(
    parts: Sequence[Mapping[str, Any]], repeats: Mapping[str, int]
) -> dict[str, Any]:
    """Say what the shards of one option are like; ``repeats`` says what they repeat."""
    total = added(parts)
    graphs = total["graphs"]
    refused: dict[str, int] = {}
    for part in parts:
        for reason, count in part["refused"].items():
            refused[reason] = refused.get(reason, 0) + count
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
        **repeats,
        "refused": dict(sorted(refused.items())),
        "accepted_at_first": round(1 - sum(part["first_refused"] for part in parts) / graphs, 6),
        **({"molecules": parts[0]["molecules"]} if "molecules" in parts[0] else {}),
    }


def _ratio(above: int, below: int) -> float | None:
    return round(above / below, 4) if below else None
