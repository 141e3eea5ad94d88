"""EERM (Wu et al. 2022): learn where generators of other edges make losses differ the most.

Generators choose, for some nodes of a sample, edges to put in or to take out, and are rewarded by
the variance of the losses. The order of updates is that of the paper's Algorithm 1, generators
first, and they are kept from step to step; the published code updates the network first and draws
generators anew every epoch. What differs from both, so that it works on samples of big graphs: the
chances of a pair of nodes come from a product of two short rows instead of a matrix over all pairs,
edits are drawn with replacement and hold for both directions, and rewards count from their running
mean, which changes no expectation.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from gsx.stages.graphs.graphsaint import Links, convolution
from gsx.stages.nn.backbones import pair_of
from gsx.stages.nn.gcn import NodeBatch
from gsx.stages.train.algorithms.edge_flips import flipped
from gsx.stages.train.algorithms.training_step import Told

RANK = 8
"""Numbers per node and side that chances of edits are made of."""
CANDIDATES = 1024
"""Nodes of a sample that edges may be put to; of a larger sample, that many drawn at random."""
MEMORY = 0.9
"""How much of the running mean of rewards stays."""


class Generators(nn.Module):
    """Every one gives each node chances over the others."""

    def __init__(self, count: int, nodes: int) -> None:
        super().__init__()
        self.count = count
        self.ends = nn.Embedding(nodes, count * RANK)
        self.others = nn.Embedding(nodes, count * RANK)

    def log_chances(self, which: int, nodes: Tensor, candidates: Tensor) -> Tensor:
        """Return the logarithms of chances ``[N, C]``."""
        part = slice(which * RANK, (which + 1) * RANK)
        left, right = self.ends(nodes)[:, part], self.others(candidates)[:, part]
        scores: Tensor = left @ right.T / math.sqrt(RANK)
        return scores.log_softmax(dim=1)


class EERM(nn.Module):
    """The mean of losses under all generators, and their variance times ``penalty``."""

    def __init__(
        self, penalty: float, *, nodes: int, contexts: int, edits: int, steps: int, rate: float
    ) -> None:
        super().__init__()
        self.penalty, self.edits, self.steps = penalty, edits, steps
        self.generators = Generators(contexts, nodes)
        self.descent = torch.optim.Adam(self.generators.parameters(), lr=rate)
        """Steps of the generators; the network's optimizer leaves them alone."""
        self.usual: Tensor
        self.register_buffer("usual", torch.zeros(()))

    def forward(self, told: Told) -> Tensor:
        """Move the generators, and return the loss of a batch."""
        stream = told.stream("eerm")
        for _ in range(self.steps):
            self.ascend(told, stream)
        with torch.no_grad():
            views = [batch for batch, _ in self.views(told, stream)]
        risks = torch.stack([risk(told, view) for view in views])
        return risks.mean() + self.penalty * risks.var(unbiased=True)

    def ascend(self, told: Told, stream: np.random.Generator) -> float:
        """Move the generators towards edits that make losses differ; return by how much they do."""
        views = self.views(told, stream)
        with torch.no_grad():
            reward = torch.stack([risk(told, view) for view, _ in views]).var(unbiased=True)
            self.usual = self.usual if bool(self.usual) else reward
            gain = reward - self.usual
            self.usual = MEMORY * self.usual + (1 - MEMORY) * reward
        self.descent.zero_grad()
        loss = -gain * torch.stack([chance for _, chance in views]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self.descent.step()
        return float(reward)

    def views(self, told: Told, stream: np.random.Generator) -> list[tuple[NodeBatch, Tensor]]:
        """Return what every generator makes of a batch, and the logarithm of its chance."""
        return [self._view(told, which, stream) for which in range(self.generators.count)]

    def _view(
        self, told: Told, which: int, stream: np.random.Generator
    ) -> tuple[NodeBatch, Tensor]:
        batch, device = told.batch, told.sight.device
        assert isinstance(batch, NodeBatch)
        assert batch.sample is not None
        sample = batch.sample
        places = np.arange(len(sample.nodes))
        if len(places) > CANDIDATES:
            places = np.sort(stream.choice(places, CANDIDATES, replace=False))
        chances = self.generators.log_chances(
            which,
            torch.from_numpy(sample.nodes).to(device),
            torch.from_numpy(sample.nodes[places]).to(device),
        )
        draws = torch.Generator(device).manual_seed(int(stream.integers(1 << 62)))
        drawn = torch.multinomial(
            chances.detach().exp(), self.edits, replacement=True, generator=draws
        )
        ends = np.repeat(np.arange(len(sample.nodes)), self.edits)
        edges = flipped(sample.edges, ends, places[drawn.cpu().numpy().ravel()])
        matrix = convolution(Links(edges.indptr, edges.indices), edges.data)
        return replace(batch, links=pair_of(matrix, device)), chances.gather(1, drawn).sum()


def risk(told: Told, batch: NodeBatch) -> Tensor:
    """Return the mean loss of the labels of a batch whose edges are changed."""
    return told.mean(told.losses_of(told.sight.look(batch).logits))
