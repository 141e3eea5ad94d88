"""Summary statistics of groups of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.table import GraphTable

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def summary_statistics(values: Array) -> dict[str, Any]:
    """Return mean, standard deviation and quantiles of ``values``; an empty dict without values."""
    if not len(values):
        return {}
    numbers = np.asarray(values, dtype=np.float64)
    return {
        "mean": round(float(numbers.mean()), 6),
        "std": round(float(numbers.std()), 6),
        "quantiles": [round(float(q), 6) for q in np.quantile(numbers, QUANTILES)],
    }


def degrees(table: GraphTable) -> Ints:
    """Return the out-degree of each node, ``[N]``."""
    source = table.dense("edge", "edge_src") + np.repeat(table.node_ptr[:-1], table.num_edges)
    return np.bincount(source, minlength=table.total_nodes)


def mean_degrees(table: GraphTable) -> Array:
    """Return stored edges per node of each graph, ``[G]``; 0 for a graph without nodes."""
    return np.asarray(table.num_edges / np.maximum(table.num_nodes, 1))


def share_outside(values: Array, low: float, high: float) -> dict[str, float]:
    """Return the share of ``values`` below and above a range."""
    if not len(values):
        return {"below": 0.0, "above": 0.0}
    return {
        "below": round(float((values < low).mean()), 6),
        "above": round(float((values > high).mean()), 6),
    }
