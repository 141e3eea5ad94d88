"""Random edge weights of whole graphs, shared by LECI and PrunE.

The network scores edges. A score is the log-odds that an edge is kept. No node is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.nn.batches import EdgeStructure, GraphBatch
    from gsx.stages.train.algorithms.training_step import ForwardPass, ModelOutput, TrainingStep

SMALLEST_UNIFORM = 1e-6
"""Distance of uniform random numbers from 0 and 1, where the logit is infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEdges:
    """A batch with a score per edge, equal for both directions."""

    batch: GraphBatch
    scores: Tensor
    """``[E]``."""
    model: ForwardPass
    """Forward passes of the backbone."""

    @property
    def structure(self) -> EdgeStructure:
        """Edge indices of the batch."""
        structure = self.batch.structure
        assert structure is not None  # build_graph_batch adds it for selector networks
        return structure

    def output(self, weights: Tensor, network: Any = None) -> ModelOutput:  # noqa: ANN401
        """Return the output of the backbone, or of another network, for edge weights ``[E]``."""
        from gsx.stages.nn.subgraph_batch import with_edge_weights

        model = self.model if network is None else replace(self.model, network=network)
        return model(with_edge_weights(self.batch, weights))

    def graph_means(self, values: Tensor, selected: Tensor | None = None) -> Tensor:
        """Return the mean of values ``[E]`` over the edges of each graph, ``[G]``.

        Optionally only over ``selected`` edges ``[E]``. A graph without such edges has 0.
        """
        import torch

        graph = self.structure.edge_graph
        if selected is not None:
            values, graph = values[selected], graph[selected]
        zeros = values.new_zeros(len(self.batch.sizes))
        count = torch.bincount(graph, minlength=len(zeros)).clamp_min(1)
        return zeros.index_add(0, graph, values) / count


def score_edges(step: TrainingStep) -> ScoredEdges:
    """Return the edges of a batch with the network's scores."""
    from gsx.stages.nn.batches import GraphBatch
    from gsx.stages.nn.device import autocast
    from gsx.stages.nn.edge_selector import SelectorNetwork

    network, batch = step.model.network, step.batch
    assert isinstance(network, SelectorNetwork)
    assert isinstance(batch, GraphBatch)
    with autocast(step.model.device, step.model.precision):
        scores = network.edges(batch)
    return ScoredEdges(batch, scores, replace(step.model, network=network.backbone))


def sample_edge_weights(edges: ScoredEdges, step: TrainingStep, temperature: float) -> Tensor:
    """Sample edge weights ``[E]`` in (0, 1) from the binary concrete distribution of the scores.

    Both directions of an edge have the same weight.
    """
    import torch

    undirected, scores = edges.structure.undirected, edges.scores
    uniform = torch.from_numpy(step.stream("edges").random(len(undirected)))
    noise = uniform.to(scores.device, scores.dtype)
    noise = noise.clamp(SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM).logit()
    both = torch.zeros_like(scores)
    both[undirected] = noise
    both[edges.structure.reverse[undirected]] = noise
    return ((scores + both) / temperature).sigmoid()
