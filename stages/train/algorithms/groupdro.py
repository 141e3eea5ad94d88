"""GroupDRO (Sagawa et al. 2020): weights of environments grow with their losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.training_step import Told

SMALLEST = 1e-30
"""Weight below which none falls: from zero, it could never grow again."""


class GroupDRO(nn.Module):
    """Losses of environments, weighted; ``penalty`` is how fast weights move to the worst.

    The published algorithm: weights are kept from batch to batch, multiplied by the exponent of
    ``penalty`` times the loss, and sum to one. An environment a batch lacks has no loss in it.
    """

    def __init__(self, penalty: float, envs: int) -> None:
        super().__init__()
        self.penalty = penalty
        self.weights: Tensor
        self.register_buffer("weights", torch.full((envs,), 1 / envs))

    def forward(self, told: Told) -> Tensor:
        """Move the weights, and return the loss of a batch."""
        present = torch.unique(told.env)
        means = torch.stack(told.by_env(told.losses))
        with torch.no_grad():
            # Exponents are taken from the largest, so that no loss overflows.
            moved = self.weights.clamp_min(SMALLEST).log()
            moved[present] += self.penalty * means
            self.weights = moved.softmax(dim=0)
        return self.weights[present] @ means
