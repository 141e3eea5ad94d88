"""GroupDRO (Sagawa et al. 2020): weights of environments grow with their losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.learners.told import Told


class GroupDRO(nn.Module):
    """Losses of environments, weighted; ``penalty`` is how fast weights move to the worst."""

    def __init__(self, penalty: float, envs: int) -> None:
        super().__init__()
        self.penalty = penalty
        self.weights: Tensor
        self.register_buffer("weights", torch.full((envs,), 1 / envs))

    def forward(self, told: Told) -> Tensor:
        """Move the weights, and return the loss of a batch."""
        present = torch.unique(told.env)
        means = torch.stack([told.losses[told.env == which].mean() for which in present])
        with torch.no_grad():
            # Exponents are taken from the largest, so that no loss overflows.
            moved = self.weights.log()
            moved[present] += self.penalty * means
            self.weights = moved.softmax(dim=0)
        return self.weights[present] @ means
