"""Quality of extracted subgraphs, from held-out labels and from ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array, row_indices
from gsx.stages.extract.data import ExtractorData
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import Bools, Floats

TOLERATED_LOSS_SHARE = 0.01
"""Fraction of the best loss reduction that smaller subgraphs may lose."""


def largest_penalty_within_one_standard_error(
    name: str,
    penalties: Sequence[float],
    losses: Sequence[Floats],
    sizes: Sequence[float],
    *,
    prior_loss: Floats,
    weights: Floats,
) -> tuple[float, list[dict[str, float]]]:
    """Return the largest penalty that is as good as the best one, and the comparison of all.

    A larger penalty makes subgraphs smaller. For each penalty, the losses ``losses[V][G]`` are
    compared graph by graph with those of the best penalty. A penalty qualifies if its mean loss
    exceeds the best by at most one standard error, or by at most one percent of the reduction that
    the best penalty achieves over ``prior_loss`` ``[G]``, the loss of the label prior. ``sizes``
    are mean subgraph sizes in nodes, ``weights`` ``[G]`` weight the graphs.
    """
    best_losses = losses[int(np.argmin([loss @ weights for loss in losses]))]
    tolerance = TOLERATED_LOSS_SHARE * float((prior_loss - best_losses) @ weights)
    trials = []
    for penalty, loss, size in zip(penalties, losses, sizes, strict=True):
        difference = loss - best_losses
        above_best = float(difference @ weights)
        standard_error = float(np.sqrt((difference - above_best) ** 2 @ weights**2))
        trials.append(
            {
                name: penalty,
                "loss": round(float(loss @ weights), 6),
                "above_best": round(above_best, 6),
                "standard_error": round(standard_error, 6),
                "nodes": round(size, 4),
            }
        )
    qualified = [
        trial for trial in trials if trial["above_best"] <= max(trial["standard_error"], tolerance)
    ]
    return max(trial[name] for trial in qualified), trials


def score_predictions(logits: Array, y: Array, task: str) -> float | None:
    """Return the score of label predictions over labelled entries; None for regression.

    The score is accuracy for classes. For binary tasks it is the mean ROC-AUC, because accuracy is
    high for constant predictions of a rare task.
    """
    if task == "regression":
        return None
    labelled = ~np.isnan(y)
    if task == "classification":
        correct: Array = (logits.argmax(axis=1) == np.nan_to_num(y).argmax(axis=1))[labelled[:, 0]]
        return round(float(correct.mean()), 6)
    areas = [
        roc_auc(logits[labelled[:, column], column], y[labelled[:, column], column] > 0.5)
        for column in range(y.shape[1])
    ]
    defined = [area for area in areas if area is not None]
    return round(float(np.mean(defined)), 6) if defined else None


def prediction_metrics(held_out: ExtractorData, logits: Mapping[str, Array]) -> dict[str, Any]:
    """Return scores of label predictions on held-out graphs, overall and per environment."""

    def scores(graphs: Bools) -> dict[str, float | None]:
        return {
            name: score_predictions(predicted[graphs], held_out.y[graphs], held_out.task)
            for name, predicted in logits.items()
        }

    per_env = [
        {"env_id": int(env), **scores(held_out.env == env)} for env in np.unique(held_out.env)
    ]
    return {
        "label_told_held_out": scores(np.ones(len(held_out), dtype=bool)),
        "label_told_per_environment": per_env,
    }


def ground_truth_metrics(
    data: ExtractorData, score: Floats, subgraph: Bools, truth: Bools
) -> dict[str, Any]:
    """Compare node scores and subgraphs with the true nodes, overall and per environment.

    ``node_auc`` is the ROC-AUC of scores, ``iou`` the mean intersection over union, ``exact`` the
    fraction of graphs with the exact nodes.
    """
    owner = row_indices(data.graphs.node_ptr)
    intersection = np.bincount(owner, subgraph & truth, minlength=len(data))
    union = np.bincount(owner, subgraph | truth, minlength=len(data))
    overlap = intersection / np.maximum(union, 1)
    exact = intersection == union

    def metrics(graphs: Bools) -> dict[str, float | None]:
        nodes = graphs[owner]
        return {
            "node_auc": roc_auc(score[nodes], truth[nodes]),
            "iou": round(float(overlap[graphs].mean()), 6),
            "exact": round(float(exact[graphs].mean()), 6),
        }

    per_env = [{"env_id": int(env), **metrics(data.env == env)} for env in np.unique(data.env)]
    return {**metrics(np.ones(len(data), dtype=bool)), "per_environment": per_env}
