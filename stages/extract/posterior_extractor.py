"""Posterior extractor: the smallest connected subgraph that predicts the label.

Three networks are trained. The first predicts the label from the *whole* graph. The second predicts
label and environment from every single *node*; the score of a node is its information about the
label minus a multiple of its information about the environment. The third predicts the label from a
connected *set* of nodes as an isolated graph. A causal subgraph grows from the best nodes by score
and ends at the size with the best label prediction under a size penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gsx.ragged import Ints
from gsx.stages.extract.data import (
    ExtractedSubgraphs,
    Extraction,
    ExtractorData,
    HeldOutSplit,
    Progress,
    node_units,
    split_held_out,
    state_arrays,
)
from gsx.stages.extract.metrics import (
    largest_penalty_within_one_standard_error,
    prediction_metrics,
)
from gsx.stages.extract.posterior_training import (
    MIN_SUBGRAPH_NODES,
    PosteriorModel,
    PosteriorOptions,
    predict,
    score_nodes,
    train_posterior,
)
from gsx.stages.graphs.subgraphs import (
    Bools,
    Floats,
    grow_subgraphs,
    induced_subgraphs,
    largest_component,
    prefix_subgraphs,
    top_nodes,
)
from gsx.stages.nn.losses import predicted_label, prior_logits, remove_prior, row_loss

SIZE_PENALTIES = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"""Candidate penalties per node, in nats. Held-out labels select one."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Connected node sets of every graph, with the likelihood of the graph's predicted label."""

    score: Floats
    """``[N]`` evidence of a node for the label."""
    order: Ints
    """``[G, S, K]`` nodes of the whole table in the order in which they joined a set."""
    size: Ints
    """``[S * (K - 1)]`` nodes of each candidate: prefixes of 2..K nodes, for every seed."""
    log_likelihood: Floats
    """``[G, S * (K - 1)]`` log-likelihood of the predicted label; -inf if no such set exists."""


def extract(
    data: ExtractorData,
    options: PosteriorOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Extraction:
    """Train on most graphs, select the size penalty on held-out graphs, extract all subgraphs."""
    split = split_held_out(data, seed)
    held_out = split.held_out
    model, weights = train_posterior(
        split.train, held_out, options, seed=seed, device=device, progress=progress
    )
    candidates = find_candidates(model, data)
    size_penalty, trials = choose_size_penalty(model, split, candidates, weights.held_out)
    causal = select_subgraphs(data, candidates, size_penalty)
    keep = split.held_out_nodes(causal)
    quality: dict[str, Any] = {
        "size_penalty": size_penalty,
        "size_penalty_trials": trials,
        "effective_graphs": round(weights.effective_graphs, 1),
        "shape_accuracy": weights.shape_accuracy,
        **prediction_metrics(
            held_out,
            {
                "subgraph": predict(model, model.sets, induced_subgraphs(held_out.graphs, keep)[0]),
                "rest": predict(model, model.whole, induced_subgraphs(held_out.graphs, ~keep)[0]),
                "whole": predict(model, model.whole, held_out.graphs),
            },
        ),
    }
    return Extraction(
        subgraphs=ExtractedSubgraphs(
            candidates.score, causal, largest_component(data.graphs, ~causal)
        ),
        weights={
            name: state_arrays(network)
            for name, network in (
                ("whole", model.whole),
                ("nodes", model.nodes),
                ("sets", model.sets),
            )
        },
        history=model.history,
        quality=quality,
    )


def find_candidates(model: PosteriorModel, data: ExtractorData) -> Candidates:
    """Grow connected node sets in every graph and compute how well each predicts the label.

    The label is the network's prediction for the whole graph, so label noise has no influence. For
    binary tasks, both the label and the predictions of node sets are relative to the prior.
    """
    options, graphs = model.options, data.graphs
    score = score_nodes(model, graphs)
    prior = model.label_prior.cpu()
    label = predicted_label(
        torch.from_numpy(predict(model, model.whole, graphs)), prior, model.task
    )
    seeds = top_nodes(graphs, score, options.num_seeds)
    sizes = np.arange(MIN_SUBGRAPH_NODES, options.max_subgraph_nodes + 1)
    orders, log_likelihoods = [], []
    for column in range(options.num_seeds):
        growth = grow_subgraphs(
            graphs, score, seeds[:, column], options.max_subgraph_nodes, node_units(graphs)
        )
        orders.append(growth.order)
        for size in sizes:
            subgraphs, _ = prefix_subgraphs(graphs, growth.order, np.full(len(graphs), size))
            logits = remove_prior(
                torch.from_numpy(predict(model, model.sets, subgraphs)), prior, model.task
            )
            log_likelihood = -row_loss(logits, label, model.task).numpy().astype(np.float64)
            log_likelihoods.append(np.where(growth.complete[:, size], log_likelihood, -np.inf))
    return Candidates(
        score,
        np.stack(orders, axis=1),
        np.tile(sizes, options.num_seeds),
        np.stack(log_likelihoods, axis=1),
    )


def select_subgraphs(data: ExtractorData, candidates: Candidates, size_penalty: float) -> Bools:
    """Return the nodes ``[N]`` of the best candidate of every graph, at a penalty per node.

    A graph without candidates gives its best node, together with the unit of that node.
    """
    graphs = data.graphs
    value = candidates.log_likelihood - size_penalty * candidates.size
    best = value.argmax(axis=1)
    num_seeds, max_size = candidates.order.shape[1:]
    chosen = candidates.order[np.arange(len(graphs)), best // (len(candidates.size) // num_seeds)]
    no_candidate = ~np.isfinite(value.max(axis=1))
    inside = (np.arange(max_size) < candidates.size[best][:, None]) & (chosen >= 0)
    keep = np.zeros(graphs.total_nodes, dtype=bool)
    keep[chosen[inside & ~no_candidate[:, None]]] = True
    best_node = top_nodes(graphs, candidates.score, 1)[no_candidate, 0]
    unit = node_units(graphs)
    if unit is None:
        keep[best_node[best_node >= 0]] = True
        return keep
    unit = unit + np.repeat(graphs.node_ptr[:-1], graphs.num_nodes)
    return np.asarray(keep | np.isin(unit, unit[best_node[best_node >= 0]]))


def choose_size_penalty(
    model: PosteriorModel, split: HeldOutSplit, candidates: Candidates, weights: Floats
) -> tuple[float, list[dict[str, float]]]:
    """Choose the largest size penalty whose held-out loss is within one standard error of the best.

    ``weights`` ``[H]`` weight the held-out graphs. The second result compares all penalties.
    """
    constant_logits = prior_logits(model.label_prior.cpu(), model.task)
    losses, sizes = [], []
    held_out = split.held_out
    for penalty in SIZE_PENALTIES:
        keep = split.held_out_nodes(select_subgraphs(split.data, candidates, penalty))
        logits = torch.from_numpy(
            predict(model, model.sets, induced_subgraphs(held_out.graphs, keep)[0])
        )
        losses.append(row_loss(logits, torch.from_numpy(held_out.y), model.task).numpy())
        sizes.append(float(keep.sum() / max(len(held_out), 1)))
    y = torch.from_numpy(held_out.y)
    prior_loss = row_loss(constant_logits.expand(y.shape), y, model.task).numpy()
    return largest_penalty_within_one_standard_error(
        "size_penalty", SIZE_PENALTIES, losses, sizes, prior_loss=prior_loss, weights=weights
    )
