"""GCN as in GOOD, for graphs whose nodes are labelled.

Per layer: a linear map, the graph convolution, BN, ReLU, dropout; no ReLU after the last layer; a
linear classifier. Features may be sparse: the first map multiplies them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from gsx.ragged import Array, Ints
from gsx.stages.nn.backbones import BackboneShape, Dropout, Pair, multiply, pair_of
from gsx.stages.nn.gin import initialize


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Where a batch that is part of a graph comes from."""

    nodes: Ints
    """``[N]`` nodes of the graph."""
    edges: csr_matrix
    """``[N, N]`` edges among them, by the weight of their messages."""
    weight: Array
    """``[N]`` float32, what every node counts so that nodes of the graph count alike."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeBatch:
    """A graph as the network reads it."""

    features: Tensor | Pair
    """``[N, F]``, dense or sparse."""
    links: Pair
    """``[N, N]`` matrix of the convolution."""
    told: Tensor
    """``[M]`` nodes whose labels are asked for."""
    sample: Sample | None = None
    """What it is a sample of; None where it is the whole graph."""
    noise: Tensor | None = None
    """``[N, F]`` what is added to the features."""


def node_batch(
    features: Tensor | csr_matrix,
    links: csr_matrix,
    told: Tensor,
    device: torch.device,
    sample: Sample | None = None,
) -> NodeBatch:
    """Lay a graph out for the network."""
    rows = features.to(device) if isinstance(features, Tensor) else pair_of(features, device)
    return NodeBatch(rows, pair_of(links, device), told.to(device), sample)


class Convolution(nn.Module):
    """One round of messages, up to and with the norm after it."""

    def __init__(self, entering: int, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(entering, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = nn.BatchNorm1d(width)

    def forward(self, links: Pair, rows: Tensor | Pair, noise: Tensor | None = None) -> Tensor:
        """Return new rows ``[N, width]``; ``noise`` is added to the rows."""
        if isinstance(rows, Pair):
            mapped = multiply(rows, self.map.weight.T.contiguous())
        else:
            mapped = self.map(rows)
        if noise is not None:
            mapped = mapped + self.map(noise)
        result: Tensor = self.norm((multiply(links, mapped) + self.bias).to(self.bias.dtype))
        return result


class GCN(nn.Module):
    """Nodes to features and logits."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        widths = (shape.features, *[shape.width] * (shape.layers - 1))
        self.layers = nn.ModuleList(Convolution(width, shape.width) for width in widths)
        self.dropout = Dropout(dropout, stream)
        self.classify = nn.Linear(shape.width, shape.outputs)

    @classmethod
    def fresh(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> GCN:
        """Return a network with weights drawn from ``weights``; convolutions as Glorot."""
        net = initialize(cls(shape, dropout, stream), weights)
        for layer in net.layers:
            assert isinstance(layer, Convolution)
            nn.init.xavier_uniform_(layer.map.weight, generator=weights)
        return net

    def entering(self, batch: NodeBatch) -> tuple[int, int]:
        """Return how many rows, of which width, enter the first layer."""
        return batch.links.matrix.shape[0], self.shape.features

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[M, width]`` and logits ``[M, outputs]`` of the nodes asked for."""
        rows: Tensor | Pair = batch.features
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            found = layer(batch.links, rows, batch.noise if number == 0 else None)
            rows = self.dropout(found.relu() if number < last else found)
        assert isinstance(rows, Tensor)
        features = rows.index_select(0, batch.told)
        return features, self.classify(features)
