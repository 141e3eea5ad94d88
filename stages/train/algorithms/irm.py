"""Invariant risk minimization (Arjovsky et al. 2019): one scale is best in every environment."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.nn.losses import row_loss
from gsx.stages.train.algorithms.training_step import Told


class IRM(nn.Module):
    """The mean loss, and how much each environment would like to scale the logits (IRMv1)."""

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        return told.mean(told.losses) + self.penalty * scale_penalty(told)


def scale_penalty(told: Told) -> Tensor:
    """Return the mean over environments of the squared gradient at scale 1."""
    scale = torch.ones((), requires_grad=True, device=told.logits.device)
    parts = []
    for risk in told.by_env(row_loss(told.logits * scale, told.y, told.task)):
        (slope,) = torch.autograd.grad(risk, scale, create_graph=True)
        parts.append(slope.square())
    return torch.stack(parts).mean()
