"""LiSA (Yu et al. 2023): a classifier that performs equally on generated subgraphs.

Each generator predicts for every node the probability to keep it, and samples a relaxed subgraph.
Generators minimize the classification loss and the KL divergence to a uniform prior, and maximize
their differences. The classifier minimizes the mean and the variance of the losses on whole graphs
and on all generated subgraphs. Inference uses whole graphs. Environments of the corpus are not
used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import AT_LEAST_2, NON_NEGATIVE, Algorithm, Option, Setup

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gsx.stages.train.algorithms.training_step import TrainingStep

EPSILON = 1e-6


class LiSA(Algorithm):
    """Mean and variance of losses over whole graphs and the subgraphs of all generators."""

    name = "lisa-subgraph"
    title = "LiSA"
    levels = ("graph",)
    distinguishes_nodes = True
    needs_edges = True

    penalty = Option(
        0.1,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.01, 0.1, 1.0),  # the paper has no grid for LiSA
        help="weight of the variance over generated subgraphs",
    )
    generators = Option(3, bounds=AT_LEAST_2, nullable=True, help="number of subgraph generators")
    kl_weight = Option(
        0.1, bounds=NON_NEGATIVE, nullable=True, help="weight of the generators' KL divergence"
    )

    networks: nn.ModuleList
    """One network per generator: node features ``[N, width]`` to keep logits ``[N, 1]``."""

    def build(self, setup: Setup) -> None:
        """Create the generators."""
        from torch import nn

        width = setup.width
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
            for _ in range(self.generators)
        )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return a loss whose gradients minimize both objectives.

        See ``combined_loss``: classifier and generators minimize different functions.
        """
        import torch

        from gsx.stages.nn.backbones import Backbone
        from gsx.stages.nn.batches import GraphBatch
        from gsx.stages.nn.device import autocast
        from gsx.stages.nn.edge_selector import freeze_batch_norm_statistics
        from gsx.stages.nn.subgraph_batch import with_node_weights

        network, batch = step.model.network, step.batch
        assert isinstance(network, Backbone)
        assert isinstance(batch, GraphBatch)
        with autocast(step.model.device, step.model.precision):
            states = network.node_states(batch)
            logits = network.classify(network.graph_features(batch, states))
        losses = [step.mean(step.losses_of(logits.float()))]
        gradient_scales: list[GradientScale] = []
        divergences = []
        for number, generator in enumerate(self.networks):
            keep_logits = generator(states.detach().float()).squeeze(1)
            divergences.append(kl_divergence(keep_logits).mean())
            gradient_scale = GradientScale()
            keep = sample_keep(keep_logits, step, number)
            if keep.requires_grad:
                keep.register_hook(gradient_scale)  # type: ignore[no-untyped-call]
            with freeze_batch_norm_statistics(network):
                output = step.model(with_node_weights(batch, keep))
            losses.append(step.mean(step.losses_of(output.logits)))
            gradient_scales.append(gradient_scale)
        divergence = torch.stack(divergences).mean()
        loss = combined_loss(torch.stack(losses), self.penalty, gradient_scales)
        return self.kl_weight * divergence + loss


class GradientScale:
    """Backward hook that multiplies a gradient by a factor that is set after the forward pass."""

    def __init__(self) -> None:
        self.factor: Tensor | None = None

    def __call__(self, grad: Tensor) -> Tensor:
        """Return the scaled gradient."""
        assert self.factor is not None  # set by combined_loss, after all forward passes
        return grad * self.factor


def combined_loss(losses: Tensor, penalty: float, gradient_scales: list[GradientScale]) -> Tensor:
    """Return the loss of the classifier, and set the gradient scales of the generators.

    Both objectives are functions of the losses ``[1 + K]`` of whole graphs and of each generator's
    subgraphs. So one forward and one backward pass suffice: losses are weighted by the gradient of
    the classifier's objective, and gradients that arrive at a generator's subgraph are rescaled to
    those of the generators' objective.
    """
    import torch

    classifier_gradient = gradient(lambda values: classifier_objective(values, penalty), losses)
    tiny = classifier_gradient.abs() < EPSILON
    classifier_gradient = torch.where(
        tiny, torch.full_like(classifier_gradient, EPSILON), classifier_gradient
    )
    generator_gradient = gradient(lambda values: generator_objective(values, penalty), losses)
    for number, gradient_scale in enumerate(gradient_scales, start=1):
        gradient_scale.factor = generator_gradient[number] / classifier_gradient[number]
    value = classifier_objective(losses.detach(), penalty)
    return value + classifier_gradient @ (losses - losses.detach())


def gradient(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return the gradient of a scalar function."""
    import torch

    inputs = at.detach().requires_grad_()
    with torch.enable_grad():
        (result,) = torch.autograd.grad(function(inputs), inputs)
    return result


def classifier_objective(losses: Tensor, penalty: float) -> Tensor:
    """Return the mean of the losses plus their variance."""
    return losses.mean() + penalty * losses.var(unbiased=True)


def generator_objective(losses: Tensor, penalty: float) -> Tensor:
    """Return the mean of the losses minus the variance of the generators' energies.

    The energy of a generator is the square root of the loss of its subgraphs. The first loss is
    that of whole graphs, which has no generator.
    """
    energies = (losses[1:] + EPSILON).sqrt()
    return losses.mean() - penalty * energies.var(unbiased=True)


def kl_divergence(keep_logits: Tensor) -> Tensor:
    """Return the KL divergence, in nats, of each keep probability from 1/2."""
    from torch.nn import functional

    keep = keep_logits.sigmoid()
    negative_entropy = keep * functional.logsigmoid(keep_logits) + (
        1 - keep
    ) * functional.logsigmoid(-keep_logits)
    return negative_entropy + math.log(2)


def sample_keep(keep_logits: Tensor, step: TrainingStep, number: int) -> Tensor:
    """Sample relaxed keep weights ``[N]`` in (0, 1) from a binary concrete distribution."""
    import torch

    uniform = step.stream(f"generator-{number}").random(len(keep_logits))
    noise = torch.from_numpy(uniform).to(keep_logits.device, keep_logits.dtype)
    noise = noise.clamp(EPSILON, 1 - EPSILON)
    return (keep_logits + noise.logit()).sigmoid()
