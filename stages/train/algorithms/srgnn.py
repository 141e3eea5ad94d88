"""SRGNN (Zhu et al. 2021): training nodes distributed like all nodes of the graph.

The loss weights training nodes by instance weights from kernel mean matching, and adds the central
moment discrepancy between the features of training nodes and of all nodes. As published, it reads
labels of training nodes only, but features of all nodes. The publication represents the whole graph
by a uniform sample of nodes; here it is a random-walk sample with inverse-probability weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep

MOMENTS = 5
"""Number of central moments that are compared, as published."""


class SRGNN(Algorithm):
    """Weighted loss plus the discrepancy between training nodes and all nodes."""

    name = "srgnn"
    title = "SRGNN"
    levels = ("node",)

    penalty = Option(
        1e-5,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(1e-4, 1e-5, 1e-6),
        help="weight of the discrepancy between training nodes and all nodes",
    )
    weights: Tensor
    """``[T]`` instance weights of the training nodes."""

    def build(self, setup: Setup) -> None:
        """Compute the instance weights."""
        from gsx.stages.train.instance_weights import instance_weights

        assert setup.nodes is not None  # check_applies rejects graph-level corpora
        self.register_buffer("weights", instance_weights(setup.nodes, setup.seed))

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        import torch

        from gsx.stages.nn.gcn import NodeBatch

        batch = step.batch
        assert isinstance(batch, NodeBatch)
        assert batch.sample is not None
        node_weight = torch.from_numpy(batch.sample.weight).to(step.model.device)
        all_nodes = torch.arange(len(node_weight), device=step.model.device)
        output = step.model(replace(batch, target_nodes=all_nodes))
        weights = self.weights[step.rows]
        weighted = replace(
            step, weights=weights if step.weights is None else weights * step.weights
        )
        labelled = batch.target_nodes
        loss = weighted.mean(step.losses_of(output.logits[labelled]))
        discrepancy = central_moment_discrepancy(
            output.features[labelled], output.features, node_weight[labelled], node_weight
        )
        return loss + self.penalty * discrepancy


def central_moment_discrepancy(
    left: Tensor, right: Tensor, left_weight: Tensor, right_weight: Tensor
) -> Tensor:
    """Return the central moment discrepancy of two samples with weighted rows."""
    first, second = left_weight / left_weight.sum(), right_weight / right_weight.sum()
    means = first @ left, second @ right
    total = euclidean_distance(*means)
    for power in range(2, MOMENTS + 1):
        moments = (
            weight @ (rows - mean).pow(power)
            for rows, mean, weight in zip((left, right), means, (first, second), strict=True)
        )
        total = total + euclidean_distance(*moments)
    return total


def euclidean_distance(left: Tensor, right: Tensor) -> Tensor:
    """Return the distance of two vectors; its gradient is 0, not NaN, where they are equal."""
    import torch

    squared = (left - right).square().sum()
    return squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt() * (squared > 0)
