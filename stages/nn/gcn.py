"""GCN as in GOOD, for node classification.

Per layer: a linear map, graph convolution, BN, ReLU, dropout; no ReLU after the last layer; then a
linear classifier. Sparse features are multiplied without conversion to dense (spmm).

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from gsx.ragged import Array, Ints
from gsx.stages.nn.backbones import Dropout
from gsx.stages.nn.batches import BackboneShape, SparseMatrix, sparse_matrix, spmm
from gsx.stages.nn.gin import init_weights


@dataclass(frozen=True, slots=True, eq=False)
class SampledSubgraph:
    """A subgraph of a training graph, drawn by GraphSAINT."""

    nodes: Ints
    """``[N]`` nodes of the whole graph."""
    edges: csr_matrix
    """``[N, N]`` edges between them; values are message weights."""
    weight: Array
    """``[N]`` float32 loss weights that correct for unequal sampling probabilities."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeBatch:
    """A graph, or a sampled subgraph, as network input."""

    features: Tensor | SparseMatrix
    """``[N, F]``, dense or sparse."""
    adjacency: SparseMatrix
    """``[N, N]`` matrix of the convolution."""
    target_nodes: Tensor
    """``[M]`` nodes whose labels are predicted."""
    sample: SampledSubgraph | None = None
    """Origin of a sampled batch; None for the whole graph."""
    noise: Tensor | None = None
    """``[N, F]`` perturbation that is added to the features."""


def build_node_batch(
    features: Tensor | csr_matrix,
    adjacency: csr_matrix,
    target_nodes: Tensor,
    device: torch.device,
    sample: SampledSubgraph | None = None,
) -> NodeBatch:
    """Return a graph as network input on ``device``."""
    rows = features.to(device) if isinstance(features, Tensor) else sparse_matrix(features, device)
    return NodeBatch(rows, sparse_matrix(adjacency, device), target_nodes.to(device), sample)


class GCNLayer(nn.Module):
    """One graph convolution, including the batch norm after it."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(inputs, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = nn.BatchNorm1d(width)

    def forward(
        self, adjacency: SparseMatrix, rows: Tensor | SparseMatrix, noise: Tensor | None = None
    ) -> Tensor:
        """Return new rows ``[N, width]``; ``noise`` is added to the input rows."""
        if isinstance(rows, SparseMatrix):
            mapped = spmm(rows, self.map.weight.T.contiguous())
        else:
            mapped = self.map(rows)
        if noise is not None:
            mapped = mapped + self.map(noise)
        result: Tensor = self.norm((spmm(adjacency, mapped) + self.bias).to(self.bias.dtype))
        return result


class GCN(nn.Module):
    """Graph convolutional network with a linear classifier of nodes."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        widths = (shape.features, *[shape.width] * (shape.layers - 1))
        self.layers = nn.ModuleList(GCNLayer(width, shape.width) for width in widths)
        self.dropout = Dropout(dropout, stream)
        self.classify = nn.Linear(shape.width, shape.outputs)

    @classmethod
    def with_random_weights(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> GCN:
        """Return a network with weights drawn from ``weights``; convolutions use Glorot."""
        network = init_weights(cls(shape, dropout, stream), weights)
        for layer in network.layers:
            assert isinstance(layer, GCNLayer)
            nn.init.xavier_uniform_(layer.map.weight, generator=weights)
        return network

    def input_shape(self, batch: NodeBatch) -> tuple[int, int]:
        """Return the shape of the first layer's input: rows and width."""
        return batch.adjacency.matrix.shape[0], self.shape.features

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[M, width]`` and logits ``[M, outputs]`` of the target nodes."""
        rows: Tensor | SparseMatrix = batch.features
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            states = layer(batch.adjacency, rows, batch.noise if number == 0 else None)
            rows = self.dropout(states.relu() if number < last else states)
        assert isinstance(rows, Tensor)
        features = rows.index_select(0, batch.target_nodes)
        return features, self.classify(features)
