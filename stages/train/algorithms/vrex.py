"""VREx (Krueger et al. 2021): equal losses in all environments. The paper's regularization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep


class VREx(Algorithm):
    """Mean loss plus the unbiased variance of the environments' mean divergences from the labels.

    For hard labels, divergences are the losses.
    """

    name = "vrex"
    title = "VREx"
    compares_environments = True

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        # The grid for spliced graphs ("+R"); for VREx alone the paper also searches 1000.
        search=(1.0, 10.0, 100.0),
        help="weight of the variance (gamma of the paper)",
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch; a batch with one environment has no variance term."""
        import torch

        means = torch.stack(step.environment_means(step.divergences))
        loss = step.mean(step.losses)
        return loss if len(means) < 2 else loss + self.penalty * means.var(unbiased=True)
