"""Backbones of graph classifiers as in GOOD: GIN, and GIN with a virtual node.

The architecture follows the published code: neighbor sums, eps 0, Linear-BN-ReLU-Linear per layer,
then BN-ReLU-Dropout, no ReLU after the last layer, mean pooling, a linear classifier. With edge
features, a message is ReLU(neighbor + edge). Other readouts than the mean are not from GOOD.

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.stages.nn.batches import BackboneShape, GraphBatch, graph_sizes, mean_pool, spmm
from gsx.stages.nn.gin import NetworkT, init_weights
from gsx.stages.nn.weighted_spmm import weighted_spmm

MOMENTUM = 0.1
"""Momentum of running statistics; torch's default."""


class Dropout(nn.Module):
    """Dropout with its own random stream."""

    def __init__(self, rate: float, stream: torch.Generator) -> None:
        super().__init__()
        self.rate, self.stream = rate, stream

    def forward(self, rows: Tensor) -> Tensor:
        """Return ``rows`` with a fraction of the values set to 0 and the others scaled up."""
        if not self.training or self.rate == 0:
            return rows
        keep = torch.rand(rows.shape, generator=self.stream, device=rows.device) >= self.rate
        return rows * keep / (1 - self.rate)


class WeightedBatchNorm(nn.BatchNorm1d):
    """Batch norm over rows that may represent several nodes each."""

    def weighted(self, rows: Tensor, row_share: Tensor | None, num_nodes: int) -> Tensor:
        """Normalize rows that represent fractions ``row_share`` ``[R]`` of ``num_nodes`` nodes.

        None means that every row is one node.
        """
        rows = rows.to(self.weight.dtype)
        if row_share is None or not self.training:
            result: Tensor = self(rows)
            return result
        with torch.autocast(rows.device.type, enabled=False):
            mean = row_share @ rows
            centered = rows - mean
            variance = row_share @ centered.square()
        self._update_running_statistics(
            mean.detach(), variance.detach() * (num_nodes / max(num_nodes - 1, 1))
        )
        return centered * (self.weight / (variance + self.eps).sqrt()) + self.bias

    @torch.no_grad()
    def _update_running_statistics(self, mean: Tensor, variance: Tensor) -> None:
        for running, current in ((self.running_mean, mean), (self.running_var, variance)):
            if running is not None:
                running.lerp_(current, MOMENTUM)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked += 1


class CategoricalEmbedding(nn.Module):
    """Sum of one embedding per categorical value; the tables of all values are one parameter."""

    def __init__(self, num_categories: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.num_categories = num_categories
        self.table = nn.Embedding(sum(num_categories), width)
        self.start: Tensor
        starts = torch.tensor([0, *num_categories[:-1]]).cumsum(dim=0)
        self.register_buffer("start", starts, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Return embeddings ``[R, width]`` of codes ``[R, F]``."""
        return functional.embedding_bag(codes + self.start, self.table.weight, mode="sum")

    def reset_parameters(self, stream: torch.Generator) -> None:
        """Initialize every table with the Glorot uniform distribution."""
        for table in torch.split(self.table.weight.detach(), list(self.num_categories)):
            nn.init.xavier_uniform_(table, generator=stream)


def feature_encoder(features: int, num_categories: tuple[int, ...], width: int) -> nn.Module:
    """Return an embedding of categorical features, or a linear map of numeric features."""
    if num_categories:
        return CategoricalEmbedding(num_categories, width)
    return nn.Linear(features, width)


class MessagePassingLayer(nn.Module):
    """One GIN layer, including the batch norm after it."""

    def __init__(self, inputs: int, shape: BackboneShape) -> None:
        super().__init__()
        width = shape.width
        self.enlarge = nn.Linear(inputs, 2 * width)
        self.inner = WeightedBatchNorm(2 * width)
        self.reduce = nn.Linear(2 * width, width)
        self.norm = WeightedBatchNorm(width)
        self.edge: nn.Module | None = None
        if shape.reads_edges:
            self.edge = feature_encoder(shape.edge_features, shape.edge_words, inputs)

    def forward(self, batch: GraphBatch, rows: Tensor, number: int) -> Tensor:
        """Return new rows ``[R', width]``; ``number`` is the index of this layer."""
        row_share = None
        if self.edge is not None and batch.attributed_edges is not None:
            src, dst, values = batch.attributed_edges
            message = (rows.index_select(0, src) + self.edge(values)).relu()
            if batch.edge_weights is not None:
                message = message * batch.edge_weights[:, None]
            rows = rows.index_add(0, dst, message)
        elif batch.weighted_edges is not None and batch.edge_weights is not None:
            rows = rows + weighted_spmm(batch.weighted_edges, batch.edge_weights, rows)
        else:
            step = batch.rounds[number]
            rows, row_share = spmm(step.neighbor_sum, rows), step.row_share
        rows = self.inner.weighted(self.enlarge(rows), row_share, batch.num_nodes).relu()
        return self.norm.weighted(self.reduce(rows), row_share, batch.num_nodes)


class VirtualNode(nn.Module):
    """A node that is connected to every node of its graph."""

    def __init__(self, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.start = nn.Embedding(1, width)
        self.net = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.BatchNorm1d(2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            dropout,
        )

    def forward(self, batch: GraphBatch, rows: Tensor, state: Tensor) -> Tensor:
        """Return the next state ``[G, width]``."""
        rows = rows if batch.node_weights is None else rows * batch.node_weights
        sums = spmm(batch.pool, rows) * batch.sizes[:, None]
        result: Tensor = self.net(sums + state)
        return result


class GraphEncoder(nn.Module):
    """GIN or GIN with a virtual node: graphs to node states."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.atoms = CategoricalEmbedding(shape.words, shape.width) if shape.words else None
        self.inputs = shape.width if shape.words else shape.features
        widths = (self.inputs, *[shape.width] * (shape.layers - 1))
        self.layers = nn.ModuleList(MessagePassingLayer(width, shape) for width in widths)
        self.dropout = Dropout(dropout, stream)
        self.virtual = VirtualNode(shape.width, self.dropout) if shape.backbone == "vgin" else None

    def input_shape(self, batch: GraphBatch) -> tuple[int, int]:
        """Return the shape of the first layer's input: rows and width."""
        return len(batch.rows), self.inputs

    def node_states(self, batch: GraphBatch) -> Tensor:
        """Return the row states after the last layer, ``[R, width]``."""
        rows = batch.rows if self.atoms is None else self.atoms(batch.rows)
        if batch.noise is not None:
            rows = rows + batch.noise
        state = None
        if self.virtual is not None:
            state = self.virtual.start.weight.expand(len(batch.sizes), -1)
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            if state is not None and number > 0:
                rows = rows + state.repeat_interleave(batch.sizes, dim=0)
            rows = layer(batch, rows, number)
            rows = self.dropout(rows.relu() if number < last else rows)
            if self.virtual is not None and state is not None and 0 < number < last:
                state = self.virtual(batch, rows, state)
        return rows


class Backbone(GraphEncoder):
    """A graph encoder, a readout and a linear classifier."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__(shape, dropout, stream)
        self.classify = nn.Linear(shape.width, shape.outputs)
        # Added to the mean: with a linear classifier, the same functions as a further feature.
        self.size = nn.Linear(1, shape.width) if shape.readout == "mean+size" else None

    @classmethod
    def with_random_weights(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> Backbone:
        """Return a network with weights drawn from ``weights``; dropout draws from ``stream``."""
        return init_backbone_weights(cls(shape, dropout, stream), weights)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[G, width]`` and logits ``[G, outputs]``."""
        features = self.graph_features(batch, self.node_states(batch))
        return features, self.classify(features)

    def graph_features(self, batch: GraphBatch, rows: Tensor) -> Tensor:
        """Return the features ``[G, width]`` of graphs with given row states."""
        mean = mean_pool(batch, rows)
        if self.shape.readout == "sum":
            return mean * graph_sizes(batch)
        if self.size is None:
            return mean
        shift: Tensor = self.size(graph_sizes(batch).log1p())
        return mean + shift


def init_backbone_weights(network: NetworkT, weights: torch.Generator) -> NetworkT:
    """Draw all weights of a network from a generator; categorical embeddings use Glorot."""
    network = init_weights(network, weights)
    for module in network.modules():
        if isinstance(module, CategoricalEmbedding):
            module.reset_parameters(weights)
    return network
