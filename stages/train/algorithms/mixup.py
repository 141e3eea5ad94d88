"""Graph Mixup (Wang et al. 2021): learn between two graphs, and between their labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from gsx.ragged import Ints
from gsx.stages.train.algorithms.training_step import Told


class Mixup(nn.Module):
    """The loss of features mixed in pairs drawn at random; ``alpha`` shapes the share of each.

    What is mixed is what the last layer makes of a graph, or of a node. One share is drawn per
    batch, from Beta(alpha, alpha).
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        stream = told.stream("mixup")
        share = float(stream.beta(self.alpha, self.alpha))
        return mixed(told, stream.permutation(len(told.rows)), share)


def mixed(told: Told, partner: Ints, share: float) -> Tensor:
    """Return the loss of features of which ``share`` is a graph's own and the rest its partner's.

    Every loss is linear in the label, or differs from one that is by what no weight can change, so
    losses of both labels are mixed: a label that is missing in one is still learned of the other.
    """
    chosen = torch.from_numpy(partner).to(told.rows.device)
    features = share * told.features + (1 - share) * told.features[chosen]
    logits = told.sight.classify(features)
    labels = None if told.labels is None else told.labels[chosen]
    other = replace(told, y=told.y[chosen], labels=labels)
    own, others = (each.mean(each.losses_of(logits)) for each in (told, other))
    return share * own + (1 - share) * others
