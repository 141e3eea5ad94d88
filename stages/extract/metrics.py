"""Quality of extracted subgraphs, from held-out labels and from ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from gsx.ragged import Array, row_indices
from gsx.seeds import rng
from gsx.stages.extract.data import ExtractorData
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import Bools, Floats

TOLERATED_LOSS_SHARE = 0.01
"""Fraction of the best loss reduction that smaller subgraphs may lose."""
PREDICTIONS = ("subgraph", "rest", "whole")
"""What labels are predicted from."""
RESAMPLES, MIN_RESAMPLES, RESAMPLED_TASKS = 400, 100, 4000
"""Bootstrap resamples: the most, the fewest, and their number times the number of tasks."""
Measure = Literal["balanced_accuracy", "roc_auc", "r2"]


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


MEASURES: Mapping[str, Measure] = {
    "classification": "balanced_accuracy",
    "binary": "roc_auc",
    "multitask": "roc_auc",
    "regression": "r2",
}
"""Measure of label predictions, by task."""


def score_predictions(logits: Array, y: Array, task: str) -> float | None:
    """Return the score of label predictions over labelled entries; None if it is undefined.

    Classes: balanced accuracy, the mean recall of the classes. Binary tasks: mean ROC-AUC.
    Regression: mean coefficient of determination R². A constant prediction scores like chance.
    """
    labelled = ~np.isnan(y)
    if task == "classification":
        truth = np.nan_to_num(y).argmax(axis=1)[labelled[:, 0]]
        correct = logits.argmax(axis=1)[labelled[:, 0]] == truth
        present, code = np.unique(truth, return_inverse=True)
        if len(present) < 2:
            return None
        recall = np.bincount(code, weights=correct) / np.bincount(code)
        return round(float(recall.mean()), 6)
    columns = [
        (logits[labelled[:, column], column].astype(np.float64), y[labelled[:, column], column])
        for column in range(y.shape[1])
    ]
    score = r_squared if task == "regression" else _auc
    scores = [score(predicted, truth) for predicted, truth in columns]
    defined = [value for value in scores if value is not None]
    return round(float(np.mean(defined)), 6) if defined else None


def _auc(predicted: Array, truth: Array) -> float | None:
    return roc_auc(predicted, truth > 0.5)


def r_squared(predicted: Array, truth: Array) -> float | None:
    """Return the coefficient of determination; None if all values are equal."""
    total = float(np.square(truth - truth.mean()).sum()) if len(truth) else 0.0
    return 1 - float(np.square(truth - predicted).sum()) / total if total else None


def chance_level(y: Array, task: str) -> float:
    """Return the score of predictions that do not depend on the graph."""
    if task == "regression":
        return 0.0
    if task != "classification":
        return 0.5
    classes = len(np.unique(np.nan_to_num(y).argmax(axis=1)[~np.isnan(y[:, 0])]))
    return round(1 / max(classes, 1), 6)


def prediction_metrics(held_out: ExtractorData, logits: Mapping[str, Array]) -> dict[str, Any]:
    """Return scores of label predictions on held-out graphs, overall and per environment.

    ``logits`` are predictions from the causal ``subgraph``, the ``rest`` of the nodes and the
    ``whole`` graph.
    """

    def scores(graphs: Bools) -> dict[str, float | None]:
        return {
            name: score_predictions(predicted[graphs], held_out.y[graphs], held_out.task)
            for name, predicted in logits.items()
        }

    per_env = [
        {"env_id": int(env), **scores(held_out.env == env)} for env in np.unique(held_out.env)
    ]
    return {
        "held_out_scores": scores(np.ones(len(held_out), dtype=bool)),
        "held_out_scores_per_environment": per_env,
        "held_out_comparison": compare_predictions(held_out.y, logits, held_out.task),
    }


def compare_predictions(y: Array, logits: Mapping[str, Array], task: str) -> dict[str, Any]:
    """Return the measure, its value by chance, and 95 % intervals of the scores.

    ``difference`` is the interval of the score of the subgraph minus that of the rest. Graphs are
    resampled, the same for all predictions. An interval is null if its score is undefined.
    """
    stream = rng(0, "extract", "bootstrap")
    resamples = int(np.clip(RESAMPLED_TASKS // y.shape[1], MIN_RESAMPLES, RESAMPLES))
    rows = stream.integers(len(y), size=(resamples, len(y))) if len(y) else np.zeros((0, 0), int)
    values = np.array(
        [
            [np.nan if (score := score_predictions(logits[name][row], y[row], task)) is None
             else score for name in PREDICTIONS]
            for row in rows
        ]
    ).reshape(-1, len(PREDICTIONS))  # fmt: skip
    return {
        "graphs": len(y),
        "measure": MEASURES[task],
        "chance": chance_level(y, task),
        **{name: _interval(values[:, column]) for column, name in enumerate(PREDICTIONS)},
        "difference": _interval(values[:, 0] - values[:, 1]),
    }


def _interval(values: Array) -> list[float] | None:
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    return [round(float(value), 6) for value in np.quantile(values, (0.025, 0.975))]


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
