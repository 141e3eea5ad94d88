"""The posterior extractor: find the smallest connected piece from which the label can be told.

Three networks. The first tells the label from the *whole* graph: the label a graph is taken for.
The second tells it, and the environment, from every single *node*; a node's score is how much it
says about the label beyond what it says about the environment. The third tells the label from a
connected *set* of nodes, seen on its own. A piece grows from the best nodes by score and stops
where the label is told best for its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gsx.ragged import Ints
from gsx.stages.extract.data import (
    Extraction,
    Lesson,
    Parts,
    Pieces,
    Progress,
    hold_out,
    units_of,
    weights_of,
)
from gsx.stages.extract.metrics import dearest, told_quality
from gsx.stages.extract.posterior_training import (
    SMALLEST_PIECE,
    Posterior,
    PosteriorOptions,
    fit,
    score_nodes,
    tell,
)
from gsx.stages.graphs.subgraphs import (
    Bools,
    Floats,
    best_nodes,
    grow,
    induced,
    largest_component,
    prefixes,
)
from gsx.stages.nn.losses import beyond, decided, prior_logits, row_loss

SIZE_COSTS = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"""What a node of a piece may cost; the held-out labels choose among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Connected sets of every graph, and how well each tells the label the graph is taken for."""

    score: Floats
    """``[N]`` how much a node speaks for the label."""
    order: Ints
    """``[G, S, K]`` nodes over the whole table in the order in which they joined a set."""
    size: Ints
    """``[S * (K - 1)]`` nodes of each candidate: prefixes of 2..K nodes, for every seed."""
    told: Floats
    """``[G, S * (K - 1)]`` log-belief in the decided label; -inf where no such set grew."""


def extract(
    lesson: Lesson,
    options: PosteriorOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Extraction:
    """Train on most graphs, choose the cost of a node on those held out, cut all."""
    parts = hold_out(lesson, seed)
    held = parts.held
    model, shares = fit(parts.taught, held, options, seed=seed, device=device, progress=progress)
    candidates = find_candidates(model, lesson)
    cost, trials = choose_cost(model, parts, candidates, shares.held)
    causal = choose(lesson, candidates, cost)
    keep = parts.of_held(causal)
    quality: dict[str, Any] = {
        "size_cost": cost,
        "size_cost_trials": trials,
        "effective_graphs": round(shares.effective_graphs, 1),
        "label_told_by_shape": shares.told_by_shape,
        **told_quality(
            held,
            {
                "piece": tell(model, model.sets, induced(held.graphs, keep)[0]),
                "rest": tell(model, model.whole, induced(held.graphs, ~keep)[0]),
                "whole": tell(model, model.whole, held.graphs),
            },
        ),
    }
    return Extraction(
        pieces=Pieces(candidates.score, causal, largest_component(lesson.graphs, ~causal)),
        weights={
            name: weights_of(net)
            for name, net in (("whole", model.whole), ("nodes", model.nodes), ("sets", model.sets))
        },
        history=model.history,
        quality=quality,
    )


def find_candidates(model: Posterior, lesson: Lesson) -> Candidates:
    """Grow connected sets in every graph and ask how well each tells the label of its graph.

    The label is the one the network decides for on the whole graph, so label noise does no harm;
    of yes-or-no tasks it is what raised the belief, and a set is asked for what raises it.
    """
    options, graphs = model.options, lesson.graphs
    score = score_nodes(model, graphs)
    prior = model.label_prior.cpu()
    label = decided(torch.from_numpy(tell(model, model.whole, graphs)), prior, model.task)
    seeds = best_nodes(graphs, score, options.seeds)
    sizes = np.arange(SMALLEST_PIECE, options.largest_piece + 1)
    orders, told = [], []
    for column in range(options.seeds):
        growth = grow(graphs, score, seeds[:, column], options.largest_piece, units_of(graphs))
        orders.append(growth.order)
        for size in sizes:
            part, _ = prefixes(graphs, growth.order, np.full(len(graphs), size))
            logits = beyond(torch.from_numpy(tell(model, model.sets, part)), prior, model.task)
            belief = -row_loss(logits, label, model.task).numpy().astype(np.float64)
            told.append(np.where(growth.whole[:, size], belief, -np.inf))
    return Candidates(
        score, np.stack(orders, axis=1), np.tile(sizes, options.seeds), np.stack(told, axis=1)
    )


def choose(lesson: Lesson, candidates: Candidates, size_cost: float) -> Bools:
    """Return the nodes of the best candidate of every graph, where a node costs ``size_cost``.

    A graph without any candidate gives its best node, with the unit it belongs to.
    """
    graphs = lesson.graphs
    value = candidates.told - size_cost * candidates.size
    best = value.argmax(axis=1)
    seeds, longest = candidates.order.shape[1:]
    chosen = candidates.order[np.arange(len(graphs)), best // (len(candidates.size) // seeds)]
    none = ~np.isfinite(value.max(axis=1))
    inside = (np.arange(longest) < candidates.size[best][:, None]) & (chosen >= 0)
    keep = np.zeros(graphs.total_nodes, dtype=bool)
    keep[chosen[inside & ~none[:, None]]] = True
    first = best_nodes(graphs, candidates.score, 1)[none, 0]
    unit = units_of(graphs)
    if unit is None:
        keep[first[first >= 0]] = True
        return keep
    unit = unit + np.repeat(graphs.node_ptr[:-1], graphs.num_nodes)
    return np.asarray(keep | np.isin(unit, unit[first[first >= 0]]))


def choose_cost(
    model: Posterior, parts: Parts, candidates: Candidates, share: Floats
) -> tuple[float, list[dict[str, float]]]:
    """Choose what a node costs: the dearest at which pieces still tell held-out labels best."""
    known = prior_logits(model.label_prior.cpu(), model.task)
    losses, sizes = [], []
    held = parts.held
    for cost in SIZE_COSTS:
        keep = parts.of_held(choose(parts.all, candidates, cost))
        logits = torch.from_numpy(tell(model, model.sets, induced(held.graphs, keep)[0]))
        losses.append(row_loss(logits, torch.from_numpy(held.y), model.task).numpy())
        sizes.append(float(keep.sum() / max(len(held), 1)))
    y = torch.from_numpy(held.y)
    blind = row_loss(known.expand(y.shape), y, model.task).numpy()
    return dearest("size_cost", SIZE_COSTS, losses, sizes, blind=blind, share=share)
