"""DIR (Wu et al. 2022): predictions of the causal subgraph are stable under interventions.

An intervention combines the causal subgraph of a graph with the environmental subgraph of another
graph in the batch. All pairs are combined. Environments of the corpus are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup
from gsx.stages.train.algorithms.subgraph_split import causal_ratio_option, split_subgraphs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gsx.stages.train.algorithms.training_step import TrainingStep


class DIR(Algorithm):
    """Mean plus variance of the losses over interventions.

    A second classifier, the shortcut, predicts the label from the environmental subgraph. It is
    trained by its own loss only, and its gradients do not reach the network.
    """

    name = "dir"
    title = "DIR"
    levels = ("graph",)

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(10.0, 1.0, 0.1, 0.01),
        help="weight of the variance over interventions",
    )
    causal_ratio = causal_ratio_option(0.4, search=(0.2, 0.4, 0.6, 0.8))

    shortcut: nn.Linear

    def build(self, setup: Setup) -> None:
        """Create the classifier of environmental subgraphs."""
        from torch import nn

        self.shortcut = nn.Linear(setup.width, setup.outputs)

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        split = split_subgraphs(step)
        logits = split.causal_output().logits
        shortcut = self.shortcut(split.detached_environmental_output().features)
        losses = intervention_losses(step, logits, shortcut.detach())
        shortcut_loss = step.mean(step.losses_of(shortcut))
        return losses.mean() + self.penalty * losses.var(unbiased=True) + shortcut_loss


def intervention_losses(step: TrainingStep, logits: Tensor, shortcut: Tensor) -> Tensor:
    """Return the mean loss ``[G]`` of all causal subgraphs with each environmental subgraph.

    The shortcut's logits gate those of the causal subgraph: ``logits * sigmoid(shortcut)``.
    """
    import torch

    joint = logits[None, :, :] * torch.sigmoid(shortcut)[:, None, :]
    losses = step.losses_of(joint)
    if step.weights is None:
        return losses.mean(dim=1)
    return losses @ step.weights / step.weights.sum().clamp_min(1)
