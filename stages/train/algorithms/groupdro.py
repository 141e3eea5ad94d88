"""GroupDRO (Sagawa et al. 2020): environments with larger losses get larger weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep

MIN_WEIGHT = 1e-30
"""Lower limit of the weights before an update: a weight of zero could never increase again."""


class GroupDRO(Algorithm):
    """Weighted mean of the environments' divergences from the labels; losses if labels are hard.

    As published: each step multiplies the weight of an environment by ``exp(penalty * loss)`` and
    normalizes the weights, which persist across batches. Environments that are missing in a batch
    have loss 0 in it.
    """

    name = "groupdro"
    title = "GroupDRO"
    compares_environments = True

    penalty = Option(
        0.01,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.1, 0.01, 0.001),
        help="step size of the environment weights",
    )
    weights: Tensor
    """``[num_envs]``, sum 1."""

    def build(self, setup: Setup) -> None:
        """Start with equal weights."""
        import torch

        self.register_buffer("weights", torch.full((setup.num_envs,), 1 / setup.num_envs))

    def loss(self, step: TrainingStep) -> Tensor:
        """Update the weights and return the loss of a batch."""
        import torch

        present = torch.unique(step.env)
        means = torch.stack(step.environment_means(step.divergences))
        with torch.no_grad():
            # softmax subtracts the maximum, so large losses do not overflow.
            log_weights = self.weights.clamp_min(MIN_WEIGHT).log()
            log_weights[present] += self.penalty * means
            self.weights = log_weights.softmax(dim=0)
        return self.weights[present] @ means
