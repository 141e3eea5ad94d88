"""Targets: parse labels for classification, binary, multitask and regression tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints
from gsx.schema import Metric, Task

TaskOption = Literal["auto", "binary", "multitask", "classification", "regression"]
MetricOption = Literal["auto", "accuracy", "roc_auc", "mcc", "rmse"]
_METRICS: dict[Task, tuple[Metric, ...]] = {
    "binary": ("roc_auc", "accuracy", "mcc"),
    "multitask": ("roc_auc", "accuracy", "mcc"),
    "classification": ("accuracy", "mcc"),
    "regression": ("rmse",),
}
"""Metrics of every task, the default first."""
_MAX_CLASSES = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """Labels of graphs or nodes."""

    task: Task
    metric: Metric
    outputs: tuple[str, ...]
    y: Array
    """``[n, C]`` float32, NaN if missing."""
    label: Ints
    """``[n]`` class, -1 if missing or without classes."""

    @property
    def unknown(self) -> int:
        """Number of items without any label."""
        return int(np.isnan(self.y).all(axis=1).sum())


def parse_labels(
    values: Array, names: Sequence[str], task: TaskOption, metric: MetricOption, where: str
) -> Labels:
    """Convert values ``[n, T]`` of named targets to labels of a task; NaN means missing."""
    for column, name in enumerate(names):
        if np.isnan(values[:, column]).all():
            raise StageError(f"{where}: the target `{name}` is missing in every row.")
    resolved = _task(values, names, task, where)
    score = resolve_metric(resolved, metric)
    if resolved == "classification":
        return _classes(values, names, score, where)
    if resolved != "regression":
        _check_two(values, names, where)
    one = resolved == "binary"
    label = np.where(np.isnan(values[:, 0]), -1, values[:, 0]) if one else np.full(len(values), -1)
    return Labels(
        task=resolved,
        metric=score,
        outputs=tuple(names),
        y=values.astype(np.float32),
        label=label.astype(np.int64),
    )


def infer_task(values: Array) -> TaskOption:
    """Infer the task of values ``[n, T]``; ``auto`` for values 0 and 1."""
    present = values[~np.isnan(values)]
    if np.isin(present, (0, 1)).all():
        return "auto"
    if (present != np.round(present)).any():
        return "regression"
    return "classification" if values.shape[1] == 1 else "auto"


def resolve_metric(task: Task, metric: MetricOption) -> Metric:
    """Return the metric of a task; reject a metric that does not apply."""
    metrics = _METRICS[task]
    if metric == "auto":
        return metrics[0]
    if metric not in metrics:
        choices = ", ".join(f"`{name}`" for name in metrics)
        raise UsageError(f"`{metric}` is not a metric for {task} tasks. Choose one of {choices}.")
    return metric


def _task(values: Array, names: Sequence[str], task: TaskOption, where: str) -> Task:
    several = len(names) > 1
    if several and task in ("binary", "classification"):
        raise UsageError(
            f"a {task} task has one target (found {len(names)}). Use `multitask` or `regression`."
        )
    if task != "auto":
        return task
    invalid = np.argwhere(~(np.isnan(values) | (values == 0) | (values == 1)))
    if len(invalid):
        row, column = invalid[0].tolist()
        raise StageError(
            f"{where}, row {row}: {names[column]} is {values[row, column]:g}, neither 0 nor 1. "
            "Set the task: `--task regression` or `--task classification`."
        )
    return "multitask" if several else "binary"


def _check_two(values: Array, names: Sequence[str], where: str) -> None:
    """Reject labels other than 0 and 1, and targets with one class."""
    invalid = np.argwhere(~(np.isnan(values) | (values == 0) | (values == 1)))
    if len(invalid):
        row, column = invalid[0].tolist()
        raise StageError(
            f"{where}, row {row}: {names[column]} is {values[row, column]:g}; expected 0, 1 or "
            "an empty cell."
        )
    for column, name in enumerate(names):
        distinct = np.unique(values[:, column][~np.isnan(values[:, column])])
        if len(distinct) < 2:
            raise StageError(
                f"{where}: every value of `{name}` is {distinct[0]:g}. A target needs both classes."
            )


def _classes(values: Array, names: Sequence[str], metric: Metric, where: str) -> Labels:
    column = values[:, 0]
    present = ~np.isnan(column)
    fractional = np.flatnonzero(present & (column != np.round(column)))
    if len(fractional):
        row = int(fractional[0])
        raise StageError(
            f"{where}, row {row}: {names[0]} is {column[row]:g}; class labels are integers. "
            "Use `--task regression` for real values."
        )
    classes = np.unique(column[present]).astype(np.int64)
    if not 2 <= len(classes) <= _MAX_CLASSES:
        raise StageError(
            f"{where}: `{names[0]}` has {len(classes)} classes; expected 2..{_MAX_CLASSES}."
        )
    label = np.full(len(column), -1, dtype=np.int64)
    label[present] = np.searchsorted(classes, column[present])
    y = np.full((len(column), len(classes)), np.nan, dtype=np.float32)
    y[present] = np.eye(len(classes), dtype=np.float32)[label[present]]
    return Labels(
        task="classification",
        metric=metric,
        outputs=tuple(map(str, classes.tolist())),
        y=y,
        label=label,
    )
