"""DIR (Wu et al. 2022): the selected part tells the label whatever rest stands beside it.

The rest of every graph of a batch is put beside the selected part of every other one, as if someone
had intervened. No environments are read.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.subgraph_split import halves
from gsx.stages.train.algorithms.training_step import Told


class DIR(nn.Module):
    """The mean over interventions, and the variance over them.

    A second classifier tells the label from the rest, and learns from that alone: nothing of what
    it learns reaches the network.
    """

    def __init__(self, penalty: float, width: int, outputs: int) -> None:
        super().__init__()
        self.penalty = penalty
        self.shortcut = nn.Linear(width, outputs)

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        both = halves(told)
        logits = both.selected().logits
        shortcut = self.shortcut(both.rest_untaught().features)
        risks = intervened(told, logits, shortcut.detach())
        apart = told.mean(told.losses_of(shortcut))
        return risks.mean() + self.penalty * risks.var(unbiased=True) + apart


def intervened(told: Told, logits: Tensor, shortcut: Tensor) -> Tensor:
    """Return the mean loss ``[G]`` of all graphs beside the rest of each one.

    What the rest says lets through, per output, a share of what the selected part says.
    """
    joint = logits[None, :, :] * torch.sigmoid(shortcut)[:, None, :]
    losses = told.losses_of(joint)
    if told.labels is None:
        return losses.mean(dim=1)
    return losses @ told.labels / told.labels.sum().clamp_min(1)
