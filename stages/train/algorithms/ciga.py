"""CIGA (Chen et al. 2022): selected parts of one class look alike, those of others do not.

Version 1 is the contrast alone (``hinge`` 0). Version 2 also asks the rest to tell the label, as
long as it tells it worse than the selected part, so that nothing of the cause hides in it. No
environments are read.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.stages.train.algorithms.subgraph_split import halves
from gsx.stages.train.algorithms.training_step import Told


class CIGA(nn.Module):
    """The mean loss, the contrast of classes, and the hinge on the rest."""

    def __init__(self, penalty: float, hinge: float, width: int, outputs: int) -> None:
        super().__init__()
        self.penalty, self.hinge = penalty, hinge
        self.shortcut = nn.Linear(width, outputs) if hinge else None

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        both = halves(told)
        seen = both.selected()
        losses = told.losses_of(seen.logits)
        loss = told.mean(losses)
        loss = loss + self.penalty * contrast(seen.features, alike(told.y, told.task))
        if self.shortcut is None:
            return loss
        rest = told.losses_of(self.shortcut(both.rest().features))
        return loss + self.hinge * told.mean(hinged(rest, losses))


def contrast(features: Tensor, same: Tensor) -> Tensor:
    """Return how badly graphs ``[G, F]`` tell those alike, ``same`` ``[G, G]``, from all others.

    The supervised contrast at temperature 1; graphs with nobody alike do not count.
    """
    unit = functional.normalize(features, dim=1)
    other = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    likeness = (unit @ unit.T).masked_fill(~other, -torch.inf)
    odds = likeness.log_softmax(dim=1)
    pairs = same & other
    count = pairs.sum(dim=1)
    each = -odds.masked_fill(~pairs, 0.0).sum(dim=1) / count.clamp_min(1)
    return each.sum() / (count > 0).sum().clamp_min(1)


def alike(y: Tensor, task: str) -> Tensor:
    """Say of every two graphs, ``[G, G]``, whether they are of one class.

    Of several tasks: whether they agree in all that are known of both, and there are some.
    """
    if task == "classification":
        which = y.argmax(dim=1)
        return which[:, None] == which[None, :]
    known = ~torch.isnan(y)
    said = torch.nan_to_num(y) > 1 / 2
    both = known[:, None, :] & known[None, :, :]
    differ = both & (said[:, None, :] != said[None, :, :])
    return both.any(dim=2) & ~differ.any(dim=2)


def hinged(rest: Tensor, selected: Tensor) -> Tensor:
    """Return the losses ``[G]`` of the rest where it tells the label worse than the other part."""
    return rest * (rest.detach() >= selected.detach())
