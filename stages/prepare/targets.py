"""What is to be learned of items: labels of classes, of several tasks, or values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints
from gsx.schema import Metric, Task

TaskAsked = Literal["auto", "binary", "multitask", "classification", "regression"]
MetricAsked = Literal["auto", "accuracy", "roc_auc", "mcc", "rmse"]
_METRICS: dict[Task, tuple[Metric, ...]] = {
    "binary": ("roc_auc", "accuracy", "mcc"),
    "multitask": ("roc_auc", "accuracy", "mcc"),
    "classification": ("accuracy", "mcc"),
    "regression": ("rmse",),
}
"""Scores of every task, the usual one first."""
_MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """What is to be learned of some items."""

    task: Task
    metric: Metric
    outputs: tuple[str, ...]
    y: Array
    """``[n, C]`` float32, NaN where not known."""
    label: Ints
    """``[n]`` class where there is one, else -1."""

    @property
    def unknown(self) -> int:
        """Items of which nothing is known."""
        return int(np.isnan(self.y).all(axis=1).sum())


def labels_of(
    values: Array, names: Sequence[str], task: TaskAsked, metric: MetricAsked, where: str
) -> Labels:
    """Turn values ``[n, T]`` of named targets into labels of a task; NaN is not known."""
    for place, name in enumerate(names):
        if np.isnan(values[:, place]).all():
            raise StageError(f"{where}: no row has a value of `{name}`.")
    found = _task(values, names, task, where)
    score = metric_of(found, metric)
    if found == "classification":
        return _classes(values, names, score, where)
    if found != "regression":
        _check_two(values, names, where)
    one = found == "binary"
    label = np.where(np.isnan(values[:, 0]), -1, values[:, 0]) if one else np.full(len(values), -1)
    return Labels(
        task=found,
        metric=score,
        outputs=tuple(names),
        y=values.astype(np.float32),
        label=label.astype(np.int64),
    )


def told_task(values: Array) -> TaskAsked:
    """Return what values ``[n, T]`` look like where nobody says: classes, values, or 0 and 1."""
    known = values[~np.isnan(values)]
    if np.isin(known, (0, 1)).all():
        return "auto"
    if (known != np.round(known)).any():
        return "regression"
    return "classification" if values.shape[1] == 1 else "auto"


def metric_of(task: Task, metric: MetricAsked) -> Metric:
    """Return the score of a task; refuse one it has not."""
    known = _METRICS[task]
    if metric == "auto":
        return known[0]
    if metric not in known:
        words = ", ".join(f"`{each}`" for each in known)
        raise UsageError(f"the metric `{metric}` is none of a {task} task; it has {words}.")
    return metric


def _task(values: Array, names: Sequence[str], task: TaskAsked, where: str) -> Task:
    several = len(names) > 1
    if several and task in ("binary", "classification"):
        raise UsageError(
            f"a {task} task has one target; got {len(names)}. Say `multitask` or `regression`."
        )
    if task != "auto":
        return task
    strange = np.argwhere(~(np.isnan(values) | (values == 0) | (values == 1)))
    if len(strange):
        row, place = strange[0].tolist()
        raise StageError(
            f"{where}, row {row}: {names[place]} is {values[row, place]:g}, neither 0 nor 1. "
            "Say what it is: `--task regression` or `--task classification`."
        )
    return "multitask" if several else "binary"


def _check_two(values: Array, names: Sequence[str], where: str) -> None:
    """Refuse labels other than 0 and 1, and targets of one class."""
    strange = np.argwhere(~(np.isnan(values) | (values == 0) | (values == 1)))
    if len(strange):
        row, place = strange[0].tolist()
        raise StageError(
            f"{where}, row {row}: {names[place]} is {values[row, place]:g}; expected 0, 1 or "
            "nothing."
        )
    for place, name in enumerate(names):
        known = np.unique(values[:, place][~np.isnan(values[:, place])])
        if len(known) < 2:
            raise StageError(
                f"{where}: every known value of `{name}` is {known[0]:g}; there is nothing to "
                "learn."
            )


def _classes(values: Array, names: Sequence[str], metric: Metric, where: str) -> Labels:
    column = values[:, 0]
    known = ~np.isnan(column)
    broken = np.flatnonzero(known & (column != np.round(column)))
    if len(broken):
        row = int(broken[0])
        raise StageError(
            f"{where}, row {row}: {names[0]} is {column[row]:g}; labels of classes are whole "
            "numbers. Say `--task regression` if it is a value."
        )
    classes = np.unique(column[known]).astype(np.int64)
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise StageError(
            f"{where}: `{names[0]}` has {len(classes)} classes; expected 2..{_MOST_CLASSES}."
        )
    label = np.full(len(column), -1, dtype=np.int64)
    label[known] = np.searchsorted(classes, column[known])
    y = np.full((len(column), len(classes)), np.nan, dtype=np.float32)
    y[known] = np.eye(len(classes), dtype=np.float32)[label[known]]
    return Labels(
        task="classification",
        metric=metric,
        outputs=tuple(map(str, classes.tolist())),
        y=y,
        label=label,
    )
