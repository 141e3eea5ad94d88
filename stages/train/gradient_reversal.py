"""Gradient reversal layer of DANN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
