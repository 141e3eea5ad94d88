"""DANN (Ganin et al. 2016): features from which a second network cannot tell the environment."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.stages.train.algorithms.training_step import Told

STEEPNESS = 10.0


class _Reverse(torch.autograd.Function):
    """Pass values on, and turn gradients around."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, strength: float) -> Tensor:  # noqa: ANN401
        ctx.strength = strength
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return -ctx.strength * grad, None


def reverse(rows: Tensor, strength: float) -> Tensor:
    """Return rows whose gradient comes back with the other sign."""
    result: Tensor = _Reverse.apply(rows, strength)  # type: ignore[no-untyped-call]
    return result


class DANN(nn.Module):
    """The mean loss, and the loss of a classifier of environments on reversed features."""

    def __init__(self, penalty: float, envs: int, width: int) -> None:
        super().__init__()
        self.penalty = penalty
        self.tell = nn.Linear(width, envs)

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch; the reversal grows from 0 to 1 as in the paper."""
        strength = 2 / (1 + math.exp(-STEEPNESS * told.progress)) - 1
        logits = self.tell(reverse(told.features, strength))
        penalty = functional.cross_entropy(logits, told.env)
        return told.mean(told.losses) + self.penalty * penalty
