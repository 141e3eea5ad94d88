"""EERM (Wu et al. 2022): minimize the variance of losses over adversarially edited graphs.

Context generators insert or delete edges between nodes of a sample; their reward is the variance of
the losses (REINFORCE). The order of updates follows Algorithm 1 of the paper: generators first, and
generators persist across steps. The published code updates the network first and draws new
generators in every epoch.

Differences from both, for samples of large graphs: edit probabilities of node pairs are products of
two low-rank embeddings instead of a matrix over all pairs; edits are drawn with replacement and
apply to both directions; rewards have their running mean as a baseline, which does not change the
expected gradient.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import (
    AT_LEAST_1,
    AT_LEAST_2,
    NON_NEGATIVE,
    POSITIVE,
    Algorithm,
    Option,
    Setup,
)

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from gsx.ragged import Ints
    from gsx.stages.nn.gcn import NodeBatch
    from gsx.stages.train.algorithms.training_step import TrainingStep

RANK = 8
"""Embedding size of a node, per generator and side."""
CANDIDATES = 1024
"""Largest number of nodes that edits may connect to; larger samples draw that many at random."""
BASELINE_DECAY = 0.9
"""Decay of the running mean of rewards."""


class EERM(Algorithm):
    """Mean of the losses on all generators' graphs plus ``penalty`` times their variance."""

    name = "eerm"
    title = "EERM"
    levels = ("node",)

    context_rate = Option(
        1e-3,
        bounds=POSITIVE,
        search=(1e-2, 1e-3, 5e-3, 1e-4),
        help="learning rate of the generators",
    )
    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(1.0, 2.0, 3.0),
        help="weight of the variance over generators",
    )
    contexts = Option(3, bounds=AT_LEAST_2, help="number of context generators")
    context_edits = Option(5, bounds=AT_LEAST_1, help="inserted or deleted edges per node")
    context_steps = Option(1, bounds=AT_LEAST_1, help="generator updates per model update")

    generators: nn.ModuleDict
    """Embeddings ``[nodes, contexts * RANK]`` of the two sides of an edit, all generators."""
    optimizer: Optimizer
    """Updates the generators; the network's optimizer does not."""
    baseline: Tensor
    """Running mean of rewards, a scalar; 0 before the first step."""

    def build(self, setup: Setup) -> None:
        """Create the generators, their optimizer and the baseline."""
        import torch
        from torch import nn

        assert setup.nodes is not None  # check_applies rejects graph-level corpora
        size = (setup.nodes.graphs.adjacency.num_nodes, self.contexts * RANK)
        self.generators = nn.ModuleDict({"left": nn.Embedding(*size), "right": nn.Embedding(*size)})
        self.optimizer = torch.optim.Adam(self.generators.parameters(), lr=self.context_rate)
        self.register_buffer("baseline", torch.zeros(()))

    def loss(self, step: TrainingStep) -> Tensor:
        """Update the generators and return the loss of a batch."""
        import torch

        stream = step.stream("eerm")
        for _ in range(self.context_steps):
            self.update_generators(step, stream)
        with torch.no_grad():
            batches = [batch for batch, _ in self.edited_batches(step, stream)]
        losses = torch.stack([batch_loss(step, batch) for batch in batches])
        return losses.mean() + self.penalty * losses.var(unbiased=True)

    def update_generators(self, step: TrainingStep, stream: np.random.Generator) -> float:
        """Update the generators by one REINFORCE step; return their reward."""
        import torch

        edited = self.edited_batches(step, stream)
        with torch.no_grad():
            losses = torch.stack([batch_loss(step, batch) for batch, _ in edited])
            reward = losses.var(unbiased=True)
            self.baseline = self.baseline if bool(self.baseline) else reward
            advantage = reward - self.baseline
            self.baseline = BASELINE_DECAY * self.baseline + (1 - BASELINE_DECAY) * reward
        self.optimizer.zero_grad()
        loss = -advantage * torch.stack([log_prob for _, log_prob in edited]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(reward)

    def edited_batches(
        self, step: TrainingStep, stream: np.random.Generator
    ) -> list[tuple[NodeBatch, Tensor]]:
        """Return every generator's edited batch with the log-probability of its edits."""
        return [self._edited_batch(step, context, stream) for context in range(self.contexts)]

    def _edited_batch(
        self, step: TrainingStep, context: int, stream: np.random.Generator
    ) -> tuple[NodeBatch, Tensor]:
        import numpy as np
        import torch

        from gsx.stages.graphs.graphsaint import Adjacency, gcn_matrix
        from gsx.stages.nn.batches import sparse_matrix
        from gsx.stages.nn.gcn import NodeBatch

        batch, device = step.batch, step.model.device
        assert isinstance(batch, NodeBatch)
        assert batch.sample is not None
        sample = batch.sample
        candidates = np.arange(len(sample.nodes))
        if len(candidates) > CANDIDATES:
            candidates = np.sort(stream.choice(candidates, CANDIDATES, replace=False))
        log_probs = self._edit_log_probs(
            context,
            torch.from_numpy(sample.nodes).to(device),
            torch.from_numpy(sample.nodes[candidates]).to(device),
        )
        generator = torch.Generator(device).manual_seed(int(stream.integers(1 << 62)))
        chosen = torch.multinomial(
            log_probs.detach().exp(), self.context_edits, replacement=True, generator=generator
        )
        left = np.repeat(np.arange(len(sample.nodes)), self.context_edits)
        edges = flip_edges(sample.edges, left, candidates[chosen.cpu().numpy().ravel()])
        matrix = gcn_matrix(Adjacency(edges.indptr, edges.indices), edges.data)
        return replace(batch, adjacency=sparse_matrix(matrix, device)), log_probs.gather(
            1, chosen
        ).sum()

    def _edit_log_probs(self, context: int, nodes: Tensor, candidates: Tensor) -> Tensor:
        """Return one generator's log-probabilities ``[N, C]`` of an edit per node."""
        columns = slice(context * RANK, (context + 1) * RANK)
        left = self.generators["left"](nodes)[:, columns]
        right = self.generators["right"](candidates)[:, columns]
        scores: Tensor = left @ right.T / math.sqrt(RANK)
        return scores.log_softmax(dim=1)


def batch_loss(step: TrainingStep, batch: NodeBatch) -> Tensor:
    """Return the mean loss of a step's labels on another batch of the same nodes."""
    return step.mean(step.losses_of(step.model(batch).logits))


def flip_edges(edges: csr_matrix, left: Ints, right: Ints) -> csr_matrix:
    """Return ``edges`` with every pair (``left``, ``right``) inserted or deleted, both directions.

    A repeated pair is flipped once, a self-loop never. New edges have weight 1; other edges keep
    their weights.
    """
    import numpy as np
    from scipy.sparse import csr_matrix

    distinct = left != right
    ends = (
        np.concatenate([left[distinct], right[distinct]]),
        np.concatenate([right[distinct], left[distinct]]),
    )
    flips = csr_matrix((np.ones(len(ends[0])), ends), shape=edges.shape)
    flips.data[:] = 1
    existing = edges.copy()
    existing.data = np.ones_like(existing.data)
    inserted = flips - flips.multiply(existing)
    flipped = csr_matrix(edges - edges.multiply(flips) + inserted)
    flipped.eliminate_zeros()
    flipped.sort_indices()
    return flipped
