"""What a learner is told of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """One batch of graphs, seen by a network."""

    losses: Tensor
    """``[G]`` loss of every graph, the mean over its labels."""
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
    labels: Tensor | None = None
    """``[G]`` how many labels every graph has; None where all have as many."""

    def mean(self, losses: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the mean over all labels, as published: a graph counts by how many it has."""
        labels = self.labels
        if chosen is not None:
            losses = losses[chosen]
            labels = None if labels is None else labels[chosen]
        return losses.mean() if labels is None else losses @ labels / labels.sum().clamp_min(1)

    def by_env(self, losses: Tensor) -> list[Tensor]:
        """Return the mean loss of every environment the batch holds."""
        return [self.mean(losses, self.env == which) for which in torch.unique(self.env)]


def label_counts(y: Tensor) -> Tensor | None:
    """Return how many labels each row ``[C]`` of ``y`` has; None where all have as many."""
    gaps = torch.isnan(y)
    return (~gaps).sum(dim=1).to(y.dtype) if bool(gaps.any()) else None
