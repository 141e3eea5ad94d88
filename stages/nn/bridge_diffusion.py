"""Discrete diffusion over bridges: every pair of nodes is a bit that noise flips to its base rate.

The forward process keeps a bit with probability ``keep_probability(t)`` and else redraws it from the rate of
bridges among the pairs of its cut. The decoder learns to tell the true bit from the noisy one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

DIFFUSION_STEPS = 8
"""Denoising steps."""


def keep_probability(step: Tensor) -> Tensor:
    """Return the share of bits that noise has left alone after ``step`` of ``DIFFUSION_STEPS`` steps."""
    return torch.cos(step / DIFFUSION_STEPS * math.pi / 2) ** 2


def add_noise(bits: Tensor, rate: Tensor, level: Tensor, generator: torch.Generator) -> Tensor:
    """Return bits after noise; ``level`` is the share of bits kept, all ``[P]``."""
    keep = torch.rand(bits.shape, generator=generator).to(bits.device) < level
    redrawn = torch.rand(bits.shape, generator=generator).to(bits.device) < rate
    return torch.where(keep, bits, redrawn.to(bits.dtype))


def noise_features(bits: Tensor, level: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return what the decoder sees of the noise, ``[P, 4]``.

    ``left`` and ``right`` are the noisy bridges at the two ends of every pair.
    """
    low, high = torch.minimum(left, right), torch.maximum(left, right)
    return torch.stack([bits, level, low.log1p(), high.log1p()], dim=1)


def reverse_step_probability(bits: Tensor, true: Tensor, rate: Tensor, step: int) -> Tensor:
    """Return the probability that a bit was 1 one step earlier, given the belief in its truth.

    ``true`` is the probability that the noiseless bit is 1; ``step`` counts down from ``DIFFUSION_STEPS``.
    """
    now, before = (float(keep_probability(torch.tensor(float(s)))) for s in (step, step - 1))
    stay = now / max(before, 1e-9)

    def after(one_earlier: Tensor | float) -> Tensor:
        """Probability of the bits seen now, given the bit one step earlier."""
        to_one = stay * one_earlier + (1 - stay) * rate
        return torch.where(bits > 0, to_one, 1 - to_one)

    one = after(1.0) * (before * true + (1 - before) * rate)
    zero = after(0.0) * (before * (1 - true) + (1 - before) * (1 - rate))
    return one / (one + zero).clamp_min(1e-12)
