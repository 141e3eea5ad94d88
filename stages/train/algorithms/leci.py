"""LECI (Gui et al. 2023): causal subgraphs are independent of the environment.

The network weights every edge. The label is predicted from the weighted graph, the causal subgraph.
Two adversaries have networks of their own. One predicts the environment from the causal subgraph,
the other one the label from the complement, whose edges have one minus the weight. Both minimize
their loss; behind a gradient reversal, the edge weights maximize it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup
from gsx.stages.train.algorithms.edge_weighting import sample_edge_weights, score_edges

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.nn.backbones import Backbone
    from gsx.stages.train.algorithms.training_step import TrainingStep

TEMPERATURE = 1.0
PRIOR_START, PRIOR_END, PRIOR_STEP = 0.9, 0.5, 0.1
PRIOR_INTERVAL = 0.25
"""Fraction of training after which the prior falls by a step: 50 of 200 epochs, as published."""


class LECI(Algorithm):
    """Mean loss plus the losses of both adversaries."""

    name = "leci"
    title = "LECI"
    levels = ("graph",)
    regression = False
    compares_environments = True
    edge_rule = "weights"

    penalty = Option(
        0.1,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.1, 1.0, 10.0, 20.0),
        help="strength of the environment adversary on causal subgraphs",
    )
    label_penalty = Option(
        0.1,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.1, 1.0, 5.0, 10.0),
        help="strength of the label adversary on environmental subgraphs; 0 omits it",
    )
    edge_prior = Option(
        0.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.0, 1.0),
        help="weight of the KL divergence of edge weights from a prior that falls from 0.9 to 0.5",
    )

    environment_adversary: Backbone | None
    label_adversary: Backbone | None

    def build(self, setup: Setup) -> None:
        """Create the networks of the adversaries whose strength is not 0."""
        self.environment_adversary = adversary(setup, setup.num_envs) if self.penalty else None
        self.label_adversary = adversary(setup, setup.outputs) if self.label_penalty else None

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch; the strength of both adversaries grows as in DANN."""
        from torch.nn import functional

        from gsx.stages.train.gradient_reversal import reversal_strength, reverse_gradient

        edges = score_edges(step)
        weights = sample_edge_weights(edges, step, TEMPERATURE)
        loss = step.mean(step.losses_of(edges.output(weights).logits))
        strength = reversal_strength(step.progress)
        if self.environment_adversary is not None:
            causal = reverse_gradient(weights, self.penalty * strength)
            logits = edges.output(causal, self.environment_adversary).logits
            loss = loss + functional.cross_entropy(logits, step.env)
        if self.label_adversary is not None:
            complement = 1 - reverse_gradient(weights, self.label_penalty * strength)
            logits = edges.output(complement, self.label_adversary).logits
            loss = loss + step.mean(step.losses_of(logits))
        if self.edge_prior:
            divergence = prior_divergence(edges.scores, prior(step.progress))
            loss = loss + self.edge_prior * edges.graph_means(divergence).mean()
        return loss


def adversary(setup: Setup, outputs: int) -> Backbone:
    """Return a network like the backbone, without dropout, with other outputs."""
    import msgspec
    import torch

    from gsx.stages.nn.backbones import Backbone

    assert setup.shape is not None  # graph-level corpora have one
    shape = msgspec.structs.replace(setup.shape, outputs=outputs, select=msgspec.UNSET)
    return Backbone(shape, 0.0, torch.Generator())


def prior(progress: float) -> float:
    """Return the prior probability of an edge at a fraction of training."""
    return max(PRIOR_START - PRIOR_STEP * int(progress / PRIOR_INTERVAL), PRIOR_END)


def prior_divergence(scores: Tensor, probability: float) -> Tensor:
    """Return the KL divergence ``[E]`` of the edges' keep probabilities from a prior."""
    from torch.nn import functional

    keep = scores.sigmoid()
    kept = functional.logsigmoid(scores) - math.log(probability)
    dropped = functional.logsigmoid(-scores) - math.log(1 - probability)
    return keep * kept + (1 - keep) * dropped
