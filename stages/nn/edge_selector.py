"""A network that first selects a part of every graph and then tells the label from that part.

An encoder reads the whole graph, every edge is scored from the states of its two ends, and the
best edges of each graph are the part. An edge of the part weighs the sigmoid of its score, an edge
of the rest what is missing to one, so that scores are learned through the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor, nn

from gsx.stages.nn.backbones import Backbone, Dropout, Encoder, draw_weights
from gsx.stages.nn.batches import BackboneShape, GraphBatch
from gsx.stages.nn.subgraph_batch import cut, top_edges


class EdgeScores(nn.Module):
    """Scores of edges from what lies around their ends."""

    def __init__(self, shape: BackboneShape) -> None:
        super().__init__()
        assert shape.select  # the shape of a network that selects
        near = msgspec.structs.replace(
            shape, backbone="gin", layers=shape.select.layers, select=msgspec.UNSET
        )
        self.encode = Encoder(near, 0.0, torch.Generator())
        self.here = nn.Linear(shape.width, 2 * shape.width)
        self.there = nn.Linear(shape.width, 2 * shape.width, bias=False)
        self.score = nn.Linear(2 * shape.width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return ``[E]`` scores, the mean over both directions of an edge."""
        structure = batch.structure
        assert structure is not None  # laid out for cutting
        states, links = self.encode.states(batch), structure.links
        here = self.here(states).index_select(0, links.src)
        there = self.there(states).index_select(0, links.dst)
        scores: Tensor = self.score((here + there).relu()).squeeze(1).float()
        return (scores + scores[structure.back]) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Graphs, and which of their edges were selected."""

    batch: GraphBatch
    scores: Tensor
    """``[E]``."""
    keep: Tensor
    """``[E]``."""

    def selected(self) -> GraphBatch:
        """Return the parts that were selected; a graph without edges is its own part."""
        return cut(self.batch, self.keep, self.scores.sigmoid(), bare=True)

    def rest(self) -> GraphBatch:
        """Return what the other edges make; nothing is left of graphs without any."""
        return cut(self.batch, ~self.keep, (-self.scores).sigmoid(), bare=False)


class Selecting(nn.Module):
    """Graphs to features and logits, by way of the parts that are selected."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.edges = EdgeScores(shape)
        plain = msgspec.structs.replace(shape, select=msgspec.UNSET)
        self.backbone = Backbone(plain, dropout, stream)

    @classmethod
    def fresh(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> Selecting:
        """Return a network with weights drawn from ``weights``."""
        return draw_weights(cls(shape, dropout, stream), weights)

    @property
    def dropout(self) -> Dropout:
        """What drops values, and the stream it draws from."""
        return self.backbone.dropout

    def split(self, batch: GraphBatch) -> Split:
        """Select the best edges of every graph."""
        assert self.shape.select  # the shape of a network that selects
        scores = self.edges(batch)
        assert batch.structure is not None  # laid out for cutting
        ratio = self.shape.select.ratio
        return Split(batch, scores, top_edges(scores, batch.structure, len(batch.sizes), ratio))

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[G, width]`` and logits ``[G, outputs]`` of the selected parts."""
        found: tuple[Tensor, Tensor] = self.backbone(self.split(batch).selected())
        return found


@contextmanager
def unremembered(net: nn.Module) -> Iterator[None]:
    """Let norms take the batch as it is and remember nothing of it.

    Scores are taken on selected parts, so the rest must not move what norms remember.
    """
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
