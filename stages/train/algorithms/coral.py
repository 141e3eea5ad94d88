"""Deep CORAL (Sun & Saenko 2016): features vary together in the same way in every environment."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.training_step import Told


class Coral(nn.Module):
    """The mean loss, and the distance between the covariances of environments."""

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        return told.mean(told.losses) + self.penalty * distance(told.features, told.env)


def distance(features: Tensor, env: Tensor) -> Tensor:
    """Return the mean over pairs of environments; those with one graph have no covariance."""
    parts = [features[env == which] for which in torch.unique(env)]
    groups = [covariance(rows) for rows in parts if len(rows) > 1]
    pairs = [(a - b).square().mean() / 4 for a, b in combinations(groups, 2)]
    return torch.stack(pairs).mean() if pairs else features.new_zeros(())


def covariance(rows: Tensor) -> Tensor:
    """Return the unbiased covariance ``[F, F]`` of rows ``[R, F]``."""
    centered = rows - rows.mean(dim=0)
    return centered.T @ centered / (len(rows) - 1)
