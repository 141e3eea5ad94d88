"""How good pieces are: by held-out labels, and by the truth where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array, rows_of
from gsx.stages.extract.data import Lesson
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import Bools, Floats

TOLERATED = 0.01
"""Share of what is told that a smaller piece may lose."""


def dearest(
    name: str,
    values: Sequence[float],
    losses: Sequence[Floats],
    sizes: Sequence[float],
    *,
    blind: Floats,
    share: Floats,
) -> tuple[float, list[dict[str, float]]]:
    """Choose the largest of ``values``, which make pieces smaller, that still does as well as any.

    Graph by graph the loss at each value is compared with the loss at the best one; the largest
    value is taken that loses no more than one standard error, or one percent of what the best one
    tells. ``losses`` are ``[V][G]``, ``blind`` ``[G]`` the loss without looking, ``sizes`` the mean
    nodes of a piece, ``share`` ``[G]`` weighs graphs. Also returns what was compared.
    """
    best = losses[int(np.argmin([loss @ share for loss in losses]))]
    tolerated = TOLERATED * float((blind - best) @ share)
    trials = []
    for value, loss, size in zip(values, losses, sizes, strict=True):
        gap = loss - best
        above = float(gap @ share)
        error = float(np.sqrt((gap - above) ** 2 @ share**2))
        trials.append(
            {
                name: value,
                "loss": round(float(loss @ share), 6),
                "above_best": round(above, 6),
                "standard_error": round(error, 6),
                "nodes": round(size, 4),
            }
        )
    good = [
        trial for trial in trials if trial["above_best"] <= max(trial["standard_error"], tolerated)
    ]
    return max(trial[name] for trial in good), trials


def how_told(logits: Array, y: Array, task: str) -> float | None:
    """Return how well labels are told, over what is known; None for values.

    The share told right of classes; of yes-or-no tasks the mean ROC-AUC, because a task where
    nearly all say no is told right by saying no.
    """
    if task == "regression":
        return None
    known = ~np.isnan(y)
    if task == "classification":
        right: Array = (logits.argmax(axis=1) == np.nan_to_num(y).argmax(axis=1))[known[:, 0]]
        return round(float(right.mean()), 6)
    areas = [
        roc_auc(logits[known[:, column], column], y[known[:, column], column] > 0.5)
        for column in range(y.shape[1])
    ]
    found = [area for area in areas if area is not None]
    return round(float(np.mean(found)), 6) if found else None


def told_quality(held: Lesson, logits: Mapping[str, Array]) -> dict[str, Any]:
    """Say how well held-out labels are told, in all and per environment."""

    def of(graphs: Bools) -> dict[str, float | None]:
        return {
            name: how_told(told[graphs], held.y[graphs], held.task) for name, told in logits.items()
        }

    per_env = [{"env_id": int(env), **of(held.env == env)} for env in np.unique(held.env)]
    return {
        "label_told_held_out": of(np.ones(len(held), dtype=bool)),
        "label_told_per_environment": per_env,
    }


def truth_quality(lesson: Lesson, score: Floats, piece: Bools, truth: Bools) -> dict[str, Any]:
    """Compare scores and pieces with the true nodes: in all, and per environment."""
    owner = rows_of(lesson.graphs.node_ptr)
    both = np.bincount(owner, piece & truth, minlength=len(lesson))
    either = np.bincount(owner, piece | truth, minlength=len(lesson))
    overlap = both / np.maximum(either, 1)
    exact = both == either

    def of(graphs: Bools) -> dict[str, float | None]:
        nodes = graphs[owner]
        return {
            "node_auc": roc_auc(score[nodes], truth[nodes]),
            "iou": round(float(overlap[graphs].mean()), 6),
            "exact": round(float(exact[graphs].mean()), 6),
        }

    per_env = [{"env_id": int(env), **of(lesson.env == env)} for env in np.unique(lesson.env)]
    return {**of(np.ones(len(lesson), dtype=bool)), "per_environment": per_env}
