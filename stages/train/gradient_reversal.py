"""Gradient reversal layer of DANN, and the schedule of its strength."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

STEEPNESS = 10.0
"""Steepness of the schedule, as published."""


def reversal_strength(progress: float) -> float:
    """Return the strength at a fraction of training; it grows from 0 to 1."""
    return 2 / (1 + math.exp(-STEEPNESS * progress)) - 1


class _GradientReversal(torch.autograd.Function):
    """Identity whose gradient is multiplied by ``-strength``."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, strength: float) -> Tensor:  # noqa: ANN401
        ctx.strength = strength
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return -ctx.strength * grad, None


def reverse_gradient(rows: Tensor, strength: float) -> Tensor:
    """Return ``rows``; in the backward pass their gradient is multiplied by ``-strength``."""
    result: Tensor = _GradientReversal.apply(rows, strength)  # type: ignore[no-untyped-call]
    return result
