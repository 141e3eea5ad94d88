"""Empirical risk minimization: the mean loss, whatever the environments."""

from __future__ import annotations

from torch import Tensor, nn

from gsx.stages.train.algorithms.training_step import Told


class ERM(nn.Module):
    """The mean loss."""

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        return told.mean(told.losses)
