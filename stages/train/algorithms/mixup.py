"""Graph Mixup (Wang et al. 2021): interpolate features and labels of random pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import POSITIVE, Algorithm, Option

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.ragged import Ints
    from gsx.stages.train.algorithms.training_step import TrainingStep


class Mixup(Algorithm):
    """Loss of features that are mixed in random pairs.

    The features are those after the last layer, of a graph or a node. Each batch has one mixing
    ratio, drawn from Beta(alpha, alpha).
    """

    name = "mixup"
    title = "Graph Mixup"

    mix_alpha = Option(
        1.0,
        bounds=POSITIVE,
        search=(0.4, 1.0, 2.0),
        help="alpha of the Beta(alpha, alpha) distribution of mixing ratios",
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        stream = step.stream("mixup")
        ratio = float(stream.beta(self.mix_alpha, self.mix_alpha))
        return mixed_loss(step, stream.permutation(len(step.rows)), ratio)


def mixed_loss(step: TrainingStep, partner: Ints, ratio: float) -> Tensor:
    """Return the loss of ``ratio * features + (1 - ratio) * features[partner]``.

    Mixes the losses of both labels instead of the labels: every loss is linear in the label, up to
    terms that do not depend on the weights. A label that only one of the two graphs has still
    counts.
    """
    import torch

    chosen = torch.from_numpy(partner).to(step.rows.device)
    features = ratio * step.features + (1 - ratio) * step.features[chosen]
    logits = step.model.classify(features)
    weights = None if step.weights is None else step.weights[chosen]
    partners = replace(step, y=step.y[chosen], weights=weights)
    own, other = (side.mean(side.losses_of(logits)) for side in (step, partners))
    return ratio * own + (1 - ratio) * other
