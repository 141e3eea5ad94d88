"""Inputs of one training step, shared by all algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsx.stages.nn.batches import GraphBatch
from gsx.stages.nn.device import Precision, autocast
from gsx.stages.nn.gcn import NodeBatch
from gsx.stages.nn.losses import label_entropy, row_loss

Batch = GraphBatch | NodeBatch


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutput:
    """Output of a network for a batch of G graphs or nodes."""

    features: Tensor
    """``[G, width]``."""
    logits: Tensor
    """``[G, C]``."""


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPass:
    """Forward passes of a network in the precision of training."""

    network: Any
    """A ``Network``: maps a batch to features and logits, and has a module ``classify``."""
    device: torch.device
    precision: Precision = "full"

    def __call__(self, batch: Batch) -> ModelOutput:
        """Return the features and logits of a batch in float32."""
        with autocast(self.device, self.precision):
            features, logits = self.network(batch)
        return ModelOutput(features.float(), logits.float())

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits ``[G, C]`` of features ``[G, width]``."""
        with autocast(self.device, self.precision):
            logits: Tensor = self.network.classify(features)
        return logits.float()


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingStep:
    """A batch with its labels and environments, and a lazily evaluated forward pass.

    ``features``, ``logits`` and ``losses`` run the network once, on first access. An algorithm that
    perturbs the batch calls ``step.model(perturbed)`` itself. G is the number of graphs, or of
    labelled nodes, in the batch.
    """

    model: ForwardPass
    batch: Batch
    rows: Tensor
    """``[G]`` positions in the training set."""
    env: Tensor
    """``[G]`` environments, numbered from 0 without gaps."""
    y: Tensor
    """``[G, C]`` labels; NaN where a label is missing."""
    task: str
    stream: Callable[[str], np.random.Generator]
    """Random stream of a name; every step has its own."""
    progress: float = 0.0
    """Fraction of training that is done, from 0 to 1."""
    weights: Tensor | None = None
    """``[G]`` weights of the losses in means: the number of labels, for nodes divided by the
    sampling probability. None weights all graphs equally."""

    @cached_property
    def output(self) -> ModelOutput:
        """Features and logits of the unmodified batch."""
        return self.model(self.batch)

    @property
    def features(self) -> Tensor:
        """``[G, width]``."""
        return self.output.features

    @property
    def logits(self) -> Tensor:
        """``[G, C]``."""
        return self.output.logits

    @cached_property
    def losses(self) -> Tensor:
        """``[G]`` loss of every graph, the mean over its labels."""
        return self.losses_of(self.logits)

    @cached_property
    def divergences(self) -> Tensor:
        """``[G]`` KL divergence of each prediction from its label; the loss if labels are hard.

        Algorithms that compare environments compare divergences. The smallest loss of a soft label
        is its entropy, so environments with softer labels have larger losses at the optimum.
        """
        return self.losses - label_entropy(self.y, self.task)

    def losses_of(self, logits: Tensor) -> Tensor:
        """Return the loss ``[G]`` of every graph for other logits ``[G, C]``."""
        return row_loss(logits, self.y, self.task)

    def mean(self, losses: Tensor, selected: Tensor | None = None) -> Tensor:
        """Return the weighted mean of losses ``[G]``, optionally of ``selected`` graphs only."""
        weights = self.weights
        if selected is not None:
            losses = losses[selected]
            weights = None if weights is None else weights[selected]
        return losses.mean() if weights is None else losses @ weights / weights.sum().clamp_min(1)

    def environment_means(self, losses: Tensor) -> list[Tensor]:
        """Return the mean loss of every environment that the batch contains, in their order."""
        return [self.mean(losses, self.env == env) for env in torch.unique(self.env)]


def label_counts(y: Tensor) -> Tensor | None:
    """Return the number of labels ``[G]`` of each row of ``y``; None if no label is missing."""
    missing = torch.isnan(y)
    return (~missing).sum(dim=1).to(y.dtype) if bool(missing.any()) else None
