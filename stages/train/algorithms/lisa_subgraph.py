"""LiSA (Yu et al. 2023): a classifier that does as well on subgraphs of several generators.

Every generator says of each node how likely it stays, and draws a relaxed subgraph. Generators are
taught to keep the label and to forget the rest of the graph, and to differ from each other; the
classifier to do equally well on whole graphs and on all subgraphs. Whole graphs are scored. No
environments are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.batches import GraphBatch, pooled
from gsx.stages.nn.device import computing
from gsx.stages.nn.edge_selector import unremembered
from gsx.stages.nn.subgraph_batch import weighted
from gsx.stages.train.algorithms.training_step import Told

SMALLEST = 1e-6


class Generator(nn.Module):
    """States of nodes to the log-odds that each of them stays."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, states: Tensor) -> Tensor:
        """Return ``[N]``."""
        found: Tensor = self.net(states)
        return found.squeeze(1)


class LiSA(nn.Module):
    """Means and variance over whole graphs and the subgraphs of all generators."""

    def __init__(self, penalty: float, kl_weight: float, generators: int, width: int) -> None:
        super().__init__()
        self.penalty, self.kl_weight = penalty, kl_weight
        self.generators = nn.ModuleList(Generator(width) for _ in range(generators))

    def forward(self, told: Told) -> Tensor:
        """Return a loss whose gradients teach the classifier and the generators each their own."""
        net, batch = told.sight.net, told.batch
        assert isinstance(net, Backbone)
        assert isinstance(batch, GraphBatch)
        with computing(told.sight.device, told.sight.precision):
            states = net.states(batch)
            logits = net.classify(pooled(batch, states))
        risks = [told.mean(told.losses_of(logits.float()))]
        turns: list[Turn] = []
        forgotten = []
        for number, generator in enumerate(self.generators):
            odds = generator(states.detach().float())
            forgotten.append(divergence(odds).mean())
            turn = Turn()
            share = drawn(odds, told, number)
            if share.requires_grad:
                share.register_hook(turn)  # type: ignore[no-untyped-call]
            with unremembered(net):
                seen = told.sight.look(weighted(batch, share))
            risks.append(told.mean(told.losses_of(seen.logits)))
            turns.append(turn)
        kept = torch.stack(forgotten).mean()
        return self.kl_weight * kept + taught(torch.stack(risks), self.penalty, turns)


class Turn:
    """Gradients on their way from a classifier to a generator, turned to what the latter wants."""

    def __init__(self) -> None:
        self.factor: Tensor | None = None

    def __call__(self, grad: Tensor) -> Tensor:
        """Return the gradient of the generator."""
        assert self.factor is not None  # known once all generators have been looked at
        return grad * self.factor


def taught(risks: Tensor, penalty: float, turns: list[Turn]) -> Tensor:
    """Return what the classifier makes small, and tell ``turns`` what generators make small.

    Both depend on the losses ``[1 + K]`` of whole graphs and of every generator's subgraphs alone.
    So one look and one pass back serve both: the losses are weighed for the classifier, and the
    gradients that arrive at a generator's subgraph are weighed anew.
    """
    of_classifier = slopes(lambda given: invariant(given, penalty), risks)
    tiny = of_classifier.abs() < SMALLEST
    of_classifier = torch.where(tiny, torch.full_like(of_classifier, SMALLEST), of_classifier)
    of_generators = slopes(lambda given: diverse(given, penalty), risks)
    for number, turn in enumerate(turns, start=1):
        turn.factor = of_generators[number] / of_classifier[number]
    value = invariant(risks.detach(), penalty)
    return value + of_classifier @ (risks - risks.detach())


def slopes(of: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return the gradient of a function of losses."""
    given = at.detach().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(of(given), given)
    return found


def invariant(risks: Tensor, penalty: float) -> Tensor:
    """Return the mean and variance of losses: what the classifier makes small."""
    return risks.mean() + penalty * risks.var(unbiased=True)


def diverse(risks: Tensor, penalty: float) -> Tensor:
    """Return the mean less the variance of energies: what generators make small.

    The energy of a generator's subgraphs is the root of their loss; whole graphs come first and
    are nobody's.
    """
    energies = (risks[1:] + SMALLEST).sqrt()
    return risks.mean() - penalty * energies.var(unbiased=True)


def divergence(odds: Tensor) -> Tensor:
    """Return how far, in nats, each node's chance to stay is from even: never less than 0."""
    stays = odds.sigmoid()
    told = stays * functional.logsigmoid(odds) + (1 - stays) * functional.logsigmoid(-odds)
    return told + math.log(2)


def drawn(odds: Tensor, told: Told, number: int) -> Tensor:
    """Draw how much of each node stays, ``[N]``: relaxed, so that chances can be learned."""
    chance = told.stream(f"generator-{number}").random(len(odds))
    noise = torch.from_numpy(chance).to(odds.device, odds.dtype).clamp(SMALLEST, 1 - SMALLEST)
    return (odds + noise.logit()).sigmoid()
