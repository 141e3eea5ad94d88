"""What a learner is told of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsx.stages.nn.backbones import GraphBatch
from gsx.stages.nn.device import Precision, computing
from gsx.stages.nn.gcn import NodeBatch
from gsx.stages.nn.losses import row_loss

Batch = GraphBatch | NodeBatch


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a network makes of a batch."""

    features: Tensor
    """``[G, width]``."""
    logits: Tensor
    """``[G, C]``."""


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """A network that looks at batches, in the precision of training."""

    net: Any
    """A ``Network``: whatever maps a batch to features and logits, and has ``classify``."""
    device: torch.device
    precision: Precision = "full"

    def look(self, batch: Batch) -> Seen:
        """Return what the network makes of a batch."""
        with computing(self.device, self.precision):
            features, logits = self.net(batch)
        return Seen(features.float(), logits.float())

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits ``[G, C]`` of features ``[G, width]``."""
        with computing(self.device, self.precision):
            logits: Tensor = self.net.classify(features)
        return logits.float()


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """One batch of graphs, or of nodes, and a network to look at it.

    The network looks when the first of ``features``, ``logits`` and ``losses`` is asked for. A
    learner that changes the batch looks at it by itself: ``told.sight.look(changed)``.
    """

    sight: Sight
    batch: Batch
    rows: Tensor
    """``[G]`` place of every graph among the training graphs."""
    env: Tensor
    """``[G]`` environment of every graph, from 0 without a gap."""
    y: Tensor
    """``[G, C]`` labels, soft or with gaps."""
    task: str
    stream: Callable[[str], np.random.Generator]
    """Random numbers of a name, anew in every step."""
    progress: float = 0.0
    """How much of training is over, from 0 to 1."""
    labels: Tensor | None = None
    """``[G]`` how many labels every graph has; None where all have as many."""

    @cached_property
    def seen(self) -> Seen:
        """What the network makes of the batch as it is."""
        return self.sight.look(self.batch)

    @property
    def features(self) -> Tensor:
        """``[G, width]``."""
        return self.seen.features

    @property
    def logits(self) -> Tensor:
        """``[G, C]``."""
        return self.seen.logits

    @cached_property
    def losses(self) -> Tensor:
        """``[G]`` loss of every graph, the mean over its labels."""
        return self.losses_of(self.logits)

    def losses_of(self, logits: Tensor) -> Tensor:
        """Return the loss ``[G]`` of every graph if the network told ``logits``."""
        return row_loss(logits, self.y, self.task)

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
