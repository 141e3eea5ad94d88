"""What a learner is told of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """One batch of graphs, seen by a network."""

    losses: Tensor
    """``[G]`` loss of every graph."""
    env: Tensor
    """``[G]`` environment of every graph, from 0 without a gap."""
    features: Tensor
    """``[G, width]``."""
    logits: Tensor
    """``[G, C]``."""
    y: Tensor
    """``[G, C]`` labels, soft or with gaps."""
    task: str
    progress: float = 0.0
    """How much of training is over, from 0 to 1."""


def by_env(values: Tensor, env: Tensor) -> list[Tensor]:
    """Return the rows of every environment the batch holds."""
    return [values[env == which] for which in torch.unique(env)]


def env_means(losses: Tensor, env: Tensor) -> Tensor:
    """Return the mean loss of every environment the batch holds."""
    return torch.stack([each.mean() for each in by_env(losses, env)])
