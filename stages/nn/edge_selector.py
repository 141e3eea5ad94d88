"""A network that selects a subgraph of every graph and predicts the label from that subgraph.

An encoder computes node states, and every edge is scored from the states of its endpoints.

With a ratio, the best edges of each graph form the selected subgraph. Selected edges have the
sigmoid of their score as weight, other edges one minus the sigmoid. So scores receive gradients
from the label loss. With a rule, every node stays, and scores become weights of all edges.

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor, nn

from gsx.stages.nn.backbones import Backbone, Dropout, GraphEncoder, init_backbone_weights
from gsx.stages.nn.batches import BackboneShape, GraphBatch
from gsx.stages.nn.subgraph_batch import edge_subgraphs, top_edges, with_edge_weights


class EdgeScorer(nn.Module):
    """Scores edges from the states of their endpoints."""

    def __init__(self, shape: BackboneShape) -> None:
        super().__init__()
        assert shape.select  # the shape of a selector network
        encoder_shape = msgspec.structs.replace(
            shape, backbone="gin", layers=shape.select.layers, select=msgspec.UNSET
        )
        self.encode = GraphEncoder(encoder_shape, 0.0, torch.Generator())
        self.here = nn.Linear(shape.width, 2 * shape.width)
        self.there = nn.Linear(shape.width, 2 * shape.width, bias=False)
        self.score = nn.Linear(2 * shape.width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return edge scores ``[E]``, averaged over both directions of an edge."""
        structure = batch.structure
        assert structure is not None  # build_graph_batch adds it for selector networks
        states, edges = self.encode.node_states(batch), structure.edges
        here = self.here(states).index_select(0, edges.src)
        there = self.there(states).index_select(0, edges.dst)
        scores: Tensor = self.score((here + there).relu()).squeeze(1).float()
        return (scores + scores[structure.reverse]) / 2


@dataclass(frozen=True, slots=True, eq=False)
class EdgeSplit:
    """A batch whose edges are split into selected and other edges."""

    batch: GraphBatch
    scores: Tensor
    """``[E]`` edge scores."""
    keep: Tensor
    """``[E]`` whether an edge is selected."""

    def selected(self) -> GraphBatch:
        """Return the selected subgraphs; a graph without edges is kept whole."""
        return edge_subgraphs(self.batch, self.keep, self.scores.sigmoid(), keep_edgeless=True)

    def complement(self) -> GraphBatch:
        """Return the subgraphs of the other edges; empty for graphs without edges."""
        return edge_subgraphs(self.batch, ~self.keep, (-self.scores).sigmoid(), keep_edgeless=False)


class SelectorNetwork(nn.Module):
    """An edge scorer and a backbone that classifies the selected subgraphs."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.edges = EdgeScorer(shape)
        backbone_shape = msgspec.structs.replace(shape, select=msgspec.UNSET)
        self.backbone = Backbone(backbone_shape, dropout, stream)

    @classmethod
    def with_random_weights(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> SelectorNetwork:
        """Return a network with weights drawn from ``weights``; dropout draws from ``stream``."""
        return init_backbone_weights(cls(shape, dropout, stream), weights)

    @property
    def dropout(self) -> Dropout:
        """Dropout of the backbone, with its random stream."""
        return self.backbone.dropout

    def split(self, batch: GraphBatch) -> EdgeSplit:
        """Select the highest-scoring edges of every graph."""
        assert self.shape.select  # the shape of a selector network
        scores = self.edges(batch)
        assert batch.structure is not None  # build_graph_batch adds it for selector networks
        ratio = self.shape.select.ratio
        assert ratio is not msgspec.UNSET  # algorithms with a rule do not split
        return EdgeSplit(batch, scores, top_edges(scores, batch.structure, len(batch.sizes), ratio))

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[G, width]`` and logits ``[G, outputs]`` of the selected subgraphs."""
        output: tuple[Tensor, Tensor] = self.backbone(self._subgraphs(batch))
        return output

    def _subgraphs(self, batch: GraphBatch) -> GraphBatch:
        """Return the subgraphs that inference uses."""
        assert self.shape.select  # the shape of a selector network
        rule = self.shape.select.rule
        if rule is msgspec.UNSET:
            return self.split(batch).selected()
        scores = self.edges(batch)
        weights = scores.sigmoid() if rule == "weights" else (scores > 0).to(scores.dtype)
        return with_edge_weights(batch, weights)


@contextmanager
def freeze_batch_norm_statistics(network: nn.Module) -> Iterator[None]:
    """Normalize with batch statistics and do not update the running statistics.

    Inference uses selected subgraphs only, so other inputs must not change running statistics.
    """
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
