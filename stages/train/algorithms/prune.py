"""PrunE (Yao et al. 2025): edges that do not help the prediction are pruned.

The network keeps each edge with a learned probability and predicts the label from a sampled
subgraph. Two terms prune edges: the expected fraction of kept edges approaches a budget, and the
lowest probabilities of every graph approach one over its number of edges. Environments of the
corpus are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import FRACTION, NON_NEGATIVE, Algorithm, Option
from gsx.stages.train.algorithms.edge_weighting import (
    ScoredEdges,
    sample_edge_weights,
    score_edges,
)

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep

TEMPERATURE = 0.2
PRETRAINING = 0.1
"""Fraction of training on whole graphs, before edges are pruned: 10 of 100 epochs, as published."""


class PrunE(Algorithm):
    """Mean loss plus the graph size constraint and the alignment of the lowest probabilities."""

    name = "prune"
    title = "PrunE"
    levels = ("graph",)
    edge_rule = "likely"

    penalty = Option(
        10.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(10.0, 40.0),
        help="weight of the squared distance of the fraction of kept edges from the budget",
    )
    edge_budget = Option(
        0.75,
        bounds=FRACTION,
        nullable=True,
        search=(0.5, 0.75, 0.85),
        help="expected fraction of a graph's edges to keep",
    )
    aligned_edges = Option(
        0.5,
        bounds=FRACTION,
        nullable=True,
        search=(0.5, 0.7, 0.9),
        help="fraction of a graph's edges whose probabilities, the lowest, approach 0",
    )
    align_weight = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.1, 1.0, 10.0),
        help="weight of the distance of these probabilities from one over the number of edges",
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        import torch

        edges = score_edges(step)
        if step.progress < PRETRAINING:
            whole = edges.output(torch.ones_like(edges.scores))
            return step.mean(step.losses_of(whole.logits))
        soft = sample_edge_weights(edges, step, TEMPERATURE)
        # Straight-through: 0 or 1 forward, the gradient of the relaxed sample backward.
        weights = (soft > 1 / 2).to(soft.dtype) + soft - soft.detach()
        loss = step.mean(step.losses_of(edges.output(weights).logits))
        loss = loss + self.penalty * size_constraint(edges, self.edge_budget)
        return loss + self.align_weight * probability_alignment(edges, self.aligned_edges)


def size_constraint(edges: ScoredEdges, budget: float) -> Tensor:
    """Return the mean squared distance of the expected fractions of kept edges from a budget.

    Graphs without edges do not count.
    """
    kept = edges.graph_means(edges.scores.sigmoid())
    return _mean_of_graphs_with_edges(edges, (kept - budget).square())


def probability_alignment(edges: ScoredEdges, fraction: float) -> Tensor:
    """Return the mean distance of the lowest keep probabilities from one over the edges.

    In every graph, a ``fraction`` of the edges with the lowest probabilities counts, rounded up.
    """
    import torch

    from gsx.stages.nn.subgraph_batch import top_edges

    structure, num_graphs = edges.structure, len(edges.batch.sizes)
    lowest = top_edges(-edges.scores, structure, num_graphs, fraction)
    count = torch.bincount(structure.edge_graph[structure.undirected], minlength=num_graphs)
    target = (1 / count.clamp_min(1).float())[structure.edge_graph]
    distance = (edges.scores.sigmoid() - target).abs()
    return _mean_of_graphs_with_edges(edges, edges.graph_means(distance, lowest))


def _mean_of_graphs_with_edges(edges: ScoredEdges, values: Tensor) -> Tensor:
    """Return the mean of values ``[G]`` over the graphs that have edges; 0 if none has."""
    import torch

    has_edges = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    has_edges[edges.structure.edge_graph] = True
    return (values * has_edges).sum() / has_edges.sum().clamp_min(1)
