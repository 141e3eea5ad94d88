"""Discrete diffusion over bridges: each node pair is one bit, which noise resamples.

The forward process keeps a bit with probability ``keep_probability(t)``. Otherwise it redraws the
bit from the bridge rate of its cut. The decoder is trained to predict the clean bit from the noisy
bits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

DIFFUSION_STEPS = 8
"""Denoising steps."""


def keep_probability(step: Tensor) -> Tensor:
    """Return the probability that a bit is kept after ``step`` steps (cosine schedule)."""
    return torch.cos(step / DIFFUSION_STEPS * math.pi / 2) ** 2


def add_noise(bits: Tensor, rate: Tensor, level: Tensor, generator: torch.Generator) -> Tensor:
    """Return noisy bits; ``level`` is the probability to keep a bit. All tensors are ``[P]``."""
    keep = torch.rand(bits.shape, generator=generator).to(bits.device) < level
    redrawn = torch.rand(bits.shape, generator=generator).to(bits.device) < rate
    return torch.where(keep, bits, redrawn.to(bits.dtype))


def noise_features(bits: Tensor, level: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return the noise features of the decoder, ``[P, 4]``.

    ``left`` and ``right`` are the numbers of noisy bridges at the two nodes of every pair.
    """
    low, high = torch.minimum(left, right), torch.maximum(left, right)
    return torch.stack([bits, level, low.log1p(), high.log1p()], dim=1)


def reverse_step_probability(bits: Tensor, clean: Tensor, rate: Tensor, step: int) -> Tensor:
    """Return the posterior probability that a bit was 1 one step before, by Bayes' rule.

    ``clean`` is the predicted probability that the clean bit is 1; ``step`` counts down from
    ``DIFFUSION_STEPS``.
    """
    now, before = (float(keep_probability(torch.tensor(float(s)))) for s in (step, step - 1))
    keep = now / max(before, 1e-9)

    def likelihood(previous: Tensor | float) -> Tensor:
        """Return the probability of the current bits, given the bits one step before."""
        to_one = keep * previous + (1 - keep) * rate
        return torch.where(bits > 0, to_one, 1 - to_one)

    one = likelihood(1.0) * (before * clean + (1 - before) * rate)
    zero = likelihood(0.0) * (before * (1 - clean) + (1 - before) * (1 - rate))
    return one / (one + zero).clamp_min(1e-12)
