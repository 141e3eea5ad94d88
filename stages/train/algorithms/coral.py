"""Deep CORAL (Sun & Saenko 2016): equal feature covariances in all environments."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep


class Coral(Algorithm):
    """Mean loss plus the distance between the environments' feature covariances."""

    name = "coral"
    title = "Deep Coral"
    compares_environments = True

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(1.0, 0.1, 0.01, 0.001),
        help="weight of the covariance distance",
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        return step.mean(step.losses) + self.penalty * covariance_distance(step.features, step.env)


def covariance_distance(features: Tensor, env: Tensor) -> Tensor:
    """Return the mean over pairs of environments of the mean squared difference, divided by 4.

    Environments with one graph have no covariance and do not count.
    """
    import torch

    groups = [features[env == which] for which in torch.unique(env)]
    covariances = [covariance(rows) for rows in groups if len(rows) > 1]
    distances = [(a - b).square().mean() / 4 for a, b in combinations(covariances, 2)]
    return torch.stack(distances).mean() if distances else features.new_zeros(())


def covariance(rows: Tensor) -> Tensor:
    """Return the unbiased covariance ``[F, F]`` of rows ``[R, F]``."""
    centered = rows - rows.mean(dim=0)
    return centered.T @ centered / (len(rows) - 1)
