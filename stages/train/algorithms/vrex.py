"""VREx (Krueger et al. 2021), the paper's regularization: environments have equal losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.training_step import Told


class VREx(nn.Module):
    """The mean loss, and the unbiased variance over the mean losses of environments."""

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch; a batch of one environment has no variance."""
        means = torch.stack(told.by_env(told.losses))
        loss = told.mean(told.losses)
        return loss if len(means) < 2 else loss + self.penalty * means.var(unbiased=True)
