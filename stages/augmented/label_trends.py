"""Warnings about labels of spliced graphs that contradict the trend of labels over size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.table import GraphTable

MIN_CORRELATION = 0.1
"""Smallest absolute correlation of label and log size that counts as a trend."""
MIN_Z = 4.0
"""Smallest correlation times the root of the number of training graphs."""
MIN_CHANGE = {"rate": 0.05, "value": 0.25}
"""Smallest predicted change: of a rate, or of a value in standard deviations."""
MIN_FOLLOWED = 0.25
"""Part of the predicted change that labels must show."""


def trend_sums(table: GraphTable) -> dict[str, list[float]]:
    """Return sums over graphs for the mean label and the mean log size, per task."""
    return label_sums(table.num_nodes, table.dense("graph", "y"))


def label_sums(nodes: Ints, y: Array) -> dict[str, list[float]]:
    """Return the sums of ``trend_sums`` for graphs with ``nodes`` ``[G]`` and ``y`` ``[G, C]``."""
    y, size = y.astype(np.float64), _log_size(nodes)
    present = ~np.isnan(y)
    return {
        "y_sum": np.where(present, y, 0).sum(axis=0).tolist(),
        "y_count": present.sum(axis=0).tolist(),
        "y_log_size": (present * size[:, None]).sum(axis=0).tolist(),
    }


def trend_warnings(
    option: int, sums: Mapping[str, Any], nodes: Ints, y: Array, info: CorpusInfo, rule: str
) -> Iterator[str]:
    """Yield a warning if labels of an option contradict the training trend over size.

    ``nodes`` ``[R]`` and ``y`` ``[R, C]`` are sizes and labels of training graphs. The trend is
    linear in log size. Of several tasks, the one with the largest difference is reported.
    """
    worst = worst_contradiction(sums, nodes, y, info)
    if worst is None:
        return
    advice = "Compare with `--recipe none`"
    if info.task == "regression" and rule == "average":
        advice = "Labels are averaged: use `--labels sum` or `--labels size-scaled`"
    yield f"option {option}: {worst}. {advice}."


def worst_contradiction(
    sums: Mapping[str, Any], nodes: Ints, y: Array, info: CorpusInfo
) -> str | None:
    """Describe the task whose labels differ most from the training trend; None if none does."""
    worst: tuple[float, str] | None = None
    for task, name in enumerate(info.outputs):
        text = _contradiction(
            task, name, sums, nodes, y[:, task], is_value=info.task == "regression"
        )
        if text is not None and (worst is None or text[0] > worst[0]):
            worst = text
    return None if worst is None else worst[1]


def has_trend(nodes: Ints, y: Array) -> bool:
    """Return whether the label of some task has a trend over the log size of training graphs."""
    return any(_correlation(nodes, y[:, task]) is not None for task in range(y.shape[1]))


def _correlation(nodes: Ints, y: Array) -> float | None:
    """Return the correlation of a label with log size; None if it is no trend."""
    present = ~np.isnan(y)
    size, label = _log_size(nodes[present]), y[present].astype(np.float64)
    if len(label) < 2 or not size.std() or not label.std():
        return None
    correlation = float(np.corrcoef(size, label)[0, 1])
    is_weak = abs(correlation) < MIN_CORRELATION
    return None if is_weak or abs(correlation) * len(label) ** 0.5 < MIN_Z else correlation


def _contradiction(
    task: int, name: str, sums: Mapping[str, Any], nodes: Ints, y: Array, *, is_value: bool
) -> tuple[float, str] | None:
    """Return the difference to the trend and its description; None without a contradiction."""
    present = ~np.isnan(y)
    size, label = _log_size(nodes[present]), y[present].astype(np.float64)
    count, correlation = sums["y_count"][task], _correlation(nodes, y)
    if not count or correlation is None:
        return None
    slope = correlation * label.std() / size.std()
    predicted = label.mean() + slope * (sums["y_log_size"][task] / count - size.mean())
    predicted = predicted if is_value else min(max(predicted, 0.0), 1.0)
    change, actual = predicted - label.mean(), sums["y_sum"][task] / count - label.mean()
    scale = label.std() if is_value else 1.0
    is_small = abs(change) < MIN_CHANGE["value" if is_value else "rate"] * scale
    if is_small or actual * np.sign(change) >= MIN_FOLLOWED * abs(change):
        return None
    direction = "rises" if correlation > 0 else "falls"
    what = f"target `{name}`" if is_value else f"rate of `{name}`"
    shown = [f"{v:.3g}" if is_value else f"{v:.1%}" for v in (predicted, label.mean() + actual)]
    return abs(change - actual) / scale, (
        f"the {what} {direction} with size in training (correlation with log size "
        f"{correlation:.2f}), which predicts {shown[0]} at the sizes of the new graphs; their "
        f"labels have {shown[1]}"
    )


def _log_size(nodes: Ints) -> Array:
    return np.log(np.maximum(nodes, 1))
