"""SRGNN (Zhu et al. 2021): training nodes are to look like nodes of the whole graph.

Features of training nodes of a sample are held close to those of all its nodes, and training nodes
count by weights that make them resemble all nodes of the graph. As published, no label but those of
training nodes is read; features of the others are. The publication takes a sample of equal chances
for the nodes of the whole graph; here they are those of a random-walk sample, each counted for how
rarely walks hold it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from gsx.stages.nn.gcn import NodeBatch
from gsx.stages.train.algorithms.training_step import Told

MOMENTS = 5
"""Central moments that are compared, as published."""


class SRGNN(nn.Module):
    """The weighted loss, and the distance between training nodes and all nodes."""

    def __init__(self, penalty: float, weights: Tensor) -> None:
        super().__init__()
        self.penalty = penalty
        self.weights: Tensor
        self.register_buffer("weights", weights)

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        batch = told.batch
        assert isinstance(batch, NodeBatch)
        assert batch.sample is not None
        share = torch.from_numpy(batch.sample.weight).to(told.sight.device)
        every = torch.arange(len(share), device=told.sight.device)
        seen = told.sight.look(replace(batch, told=every))
        weighted = replace(told, labels=_times(self.weights[told.rows], told.labels))
        loss = weighted.mean(told.losses_of(seen.logits[batch.told]))
        near = discrepancy(seen.features[batch.told], seen.features, share[batch.told], share)
        return loss + self.penalty * near


def _times(weights: Tensor, labels: Tensor | None) -> Tensor:
    return weights if labels is None else weights * labels


def discrepancy(left: Tensor, right: Tensor, share: Tensor, others: Tensor) -> Tensor:
    """Return the central moment discrepancy of two samples, whose rows count by shares."""
    first, second = share / share.sum(), others / others.sum()
    means = first @ left, second @ right
    found = distance(*means)
    for power in range(2, MOMENTS + 1):
        moments = (
            part @ (rows - mean).pow(power)
            for rows, mean, part in zip((left, right), means, (first, second), strict=True)
        )
        found = found + distance(*moments)
    return found


def distance(left: Tensor, right: Tensor) -> Tensor:
    """Return how far two rows are apart; its slope is 0, not undefined, where they are equal."""
    squared = (left - right).square().sum()
    return squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt() * (squared > 0)
