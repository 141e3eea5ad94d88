"""CIGA (Chen et al. 2022): causal subgraphs of a class have similar features.

Version 1 is the contrastive loss alone (``hinge`` 0). Version 2 also trains a classifier of the
environmental subgraphs, on those graphs where it has a larger loss than the causal subgraph, so
that no causal structure remains in the environmental subgraph. Environments of the corpus are not
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup
from gsx.stages.train.algorithms.subgraph_split import causal_ratio_option, split_subgraphs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gsx.stages.train.algorithms.training_step import TrainingStep


class CIGA(Algorithm):
    """Mean loss plus the supervised contrastive loss and the hinge loss."""

    name = "ciga"
    title = "CIGA"
    levels = ("graph",)
    regression = False

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.5, 1.0, 2.0),
        help="weight of the contrastive loss",
    )
    causal_ratio = causal_ratio_option(0.6, search=(0.4, 0.6, 0.8))
    hinge = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.5, 1.0, 2.0),
        help="weight of the environmental subgraphs' hinge loss; 0 is CIGA version 1",
    )

    shortcut: nn.Linear | None

    def build(self, setup: Setup) -> None:
        """Create the classifier of environmental subgraphs, if ``hinge`` is not 0."""
        from torch import nn

        self.shortcut = nn.Linear(setup.width, setup.outputs) if self.hinge else None

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        split = split_subgraphs(step)
        output = split.causal_output()
        losses = step.losses_of(output.logits)
        loss = step.mean(losses)
        loss = loss + self.penalty * contrastive_loss(
            output.features, same_class(step.y, step.task)
        )
        if self.shortcut is None:
            return loss
        features = split.environmental_output().features
        environmental_losses = step.losses_of(self.shortcut(features))
        return loss + self.hinge * step.mean(hinge_losses(environmental_losses, losses))


def contrastive_loss(features: Tensor, same: Tensor) -> Tensor:
    """Return the supervised contrastive loss of features ``[G, F]`` at temperature 1.

    ``same`` ``[G, G]`` is true for pairs of one class. Graphs without another graph of their class
    do not count.
    """
    import torch
    from torch.nn import functional

    unit = functional.normalize(features, dim=1)
    other = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    similarity = (unit @ unit.T).masked_fill(~other, -torch.inf)
    log_probs = similarity.log_softmax(dim=1)
    positives = same & other
    count = positives.sum(dim=1)
    losses = -log_probs.masked_fill(~positives, 0.0).sum(dim=1) / count.clamp_min(1)
    return losses.sum() / (count > 0).sum().clamp_min(1)


def same_class(y: Tensor, task: str) -> Tensor:
    """Return whether each pair of graphs has the same class, ``[G, G]``.

    With several tasks: whether the two agree in all tasks that both have a label for, and there is
    at least one.
    """
    import torch

    if task == "classification":
        classes = y.argmax(dim=1)
        return classes[:, None] == classes[None, :]
    labelled = ~torch.isnan(y)
    positive = torch.nan_to_num(y) > 1 / 2
    both = labelled[:, None, :] & labelled[None, :, :]
    differ = both & (positive[:, None, :] != positive[None, :, :])
    return both.any(dim=2) & ~differ.any(dim=2)


def hinge_losses(environmental: Tensor, causal: Tensor) -> Tensor:
    """Return the losses ``[G]`` of environmental subgraphs, 0 where the causal loss is larger."""
    return environmental * (environmental.detach() >= causal.detach())
