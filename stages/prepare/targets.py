"""Targets: parse labels for classification, binary, multitask and regression tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.limits import COLUMNS, LABEL_VALUES
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
MAX_CLASSES = 1000
_MAX_CLASS = 1 << 53
"""Limit of class labels: smaller integers are exact as 64-bit floating-point numbers."""


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


def check_num_targets(count: int, where: str) -> None:
    """Reject files without targets, or with more targets than columns of a table."""
    if not count:
        raise StageError(f"{where} has no targets: the field or file with labels has no columns.")
    if count > COLUMNS.value:
        raise StageError(
            f"{where} has {count:,} targets; the limit is {COLUMNS.value:,}. {COLUMNS.advice}"
        )


def parse_labels(
    values: Array,
    names: Sequence[str],
    task: TaskOption,
    metric: MetricOption,
    where: str,
    classes: Sequence[str] = (),
) -> Labels:
    """Convert values ``[n, T]`` of named targets to labels of a task; NaN means missing.

    Values are 64-bit floating-point numbers, in which integers below 2^53 are exact. ``classes``
    are the names of classes whose codes are the values.
    """
    if classes and task == "auto":
        task = "classification"
    too_large = np.argwhere(np.abs(values) > np.finfo(np.float32).max)
    if len(too_large):
        row, column = too_large[0].tolist()
        raise StageError(
            f"{where}, row {row}: {names[column]} is {values[row, column]:g}, but targets are "
            "32-bit floats. Rescale the target."
        )
    for column, name in enumerate(names):
        if np.isnan(values[:, column]).all():
            raise StageError(f"{where}: the target `{name}` is missing in every row.")
    resolved = _task(values, names, task, where)
    score = resolve_metric(resolved, metric)
    if resolved == "classification":
        return _classes(values, names, score, where, classes)
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


def _classes(
    values: Array, names: Sequence[str], metric: Metric, where: str, texts: Sequence[str]
) -> Labels:
    column = values[:, 0]
    present = ~np.isnan(column)
    fractional = np.flatnonzero(present & (column != np.round(column)))
    if len(fractional):
        row = int(fractional[0])
        raise StageError(
            f"{where}, row {row}: {names[0]} is {column[row]:g}; class labels are integers. "
            "Use `--task regression` for real values."
        )
    ambiguous = np.flatnonzero(present & (np.abs(column) >= _MAX_CLASS))
    if len(ambiguous):
        row = int(ambiguous[0])
        raise StageError(
            f"{where}, row {row}: {names[0]} is about {column[row]:.17g}; class labels are below "
            "2^53, because larger integers are not distinct as floating-point numbers. Number the "
            "classes from 0."
        )
    classes = np.unique(column[present]).astype(np.int64)
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise StageError(
            f"{where}: `{names[0]}` has {len(classes)} classes; expected 2..{MAX_CLASSES}."
        )
    if len(column) * len(classes) > LABEL_VALUES.value:
        raise StageError(
            f"{where}: {len(column):,} rows and {len(classes):,} classes of `{names[0]}` give more "
            f"than {LABEL_VALUES.value:,} label values. {LABEL_VALUES.advice}"
        )
    label = np.full(len(column), -1, dtype=np.int64)
    label[present] = np.searchsorted(classes, column[present])
    y = np.zeros((len(column), len(classes)), dtype=np.float32)
    y[np.arange(len(column)), label] = 1
    y[~present] = np.nan
    return Labels(
        task="classification",
        metric=metric,
        outputs=tuple(texts or map(str, classes.tolist())),
        y=y,
        label=label,
    )
