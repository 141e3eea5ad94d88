"""How good pieces are: by held-out labels, and by the truth where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from gsx.ragged import Array, Ints, rows_of
from gsx.stages.extractors.lesson import Lesson
from gsx.stages.extractors.posterior import Posterior, choose, find_candidates, tell
from gsx.stages.kernels.subgraphs import Bools, Floats, induced
from gsx.stages.nets.labels import row_loss


def size_cost_by_held_out(
    model: Posterior, held: Lesson, costs: Sequence[float]
) -> tuple[float, list[dict[str, float]]]:
    """Choose what a node costs: the dearest at which pieces still tell held-out labels best.

    Graph by graph the loss at each cost is compared with the loss at the best cost; the dearest one
    within one standard error of no difference is taken. No truth about pieces is looked at.
    """
    _, candidates = find_candidates(model, held)
    losses, sizes = [], []
    for cost in costs:
        keep = choose(held.graphs, candidates, cost)
        losses.append(_losses(model, held, keep))
        sizes.append(float(keep.sum() / max(len(held), 1)))
    best = losses[int(np.argmin([loss.mean() for loss in losses]))]
    trials = []
    for cost, loss, size in zip(costs, losses, sizes, strict=True):
        gap = loss - best
        trials.append(
            {
                "size_cost": cost,
                "loss": round(float(loss.mean()), 6),
                "above_best": round(float(gap.mean()), 6),
                "standard_error": round(float(gap.std() / np.sqrt(len(gap))), 6),
                "nodes": round(size, 4),
            }
        )
    good = [trial for trial in trials if trial["above_best"] <= trial["standard_error"]]
    return max(trial["size_cost"] for trial in good), trials


def told_by_pieces(model: Posterior, held: Lesson, cost: float) -> dict[str, float]:
    """Return how often a label is told right from the piece, the rest and the whole graph."""
    _, candidates = find_candidates(model, held)
    keep = choose(held.graphs, candidates, cost)
    return {
        "piece": _accuracy(model, held, keep),
        "rest": _accuracy(model, held, ~keep),
        "whole": _accuracy(model, held, np.ones_like(keep)),
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


def roc_auc(score: Floats, truth: Bools) -> float | None:
    """Return the probability that a true one scores above a false one; None without both."""
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return None
    ranks = rankdata(score)[truth].sum()
    return round(float((ranks - positives * (positives + 1) / 2) / (positives * negatives)), 6)


def _losses(model: Posterior, lesson: Lesson, keep: Bools) -> Array:
    part, _ = induced(lesson.graphs, keep)
    logits = torch.from_numpy(tell(model, part, lesson.features[keep]))
    return np.asarray(row_loss(logits, torch.from_numpy(lesson.y), model.task).numpy())


def _accuracy(model: Posterior, lesson: Lesson, keep: Bools) -> float:
    part, _ = induced(lesson.graphs, keep)
    logits = tell(model, part, lesson.features[keep])
    if model.task == "classification":
        right: Ints = logits.argmax(axis=1) == lesson.y.argmax(axis=1)
    else:
        right = (logits > 0) == (lesson.y > 0.5)
    return round(float(right[~np.isnan(lesson.y).all(axis=1)].mean()), 6)
