"""Backbones of graph classifiers as in GOOD: GIN, and GIN with a virtual node.

Shapes follow the published code: sums of neighbors, eps 0, Linear-BN-ReLU-Linear per layer, then
BN-ReLU-Dropout, no ReLU after the last layer, mean pooling, a linear classifier. Where edges have
features a message is ReLU(neighbor + edge).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.stages.nn.batches import BackboneShape as BackboneShape
from gsx.stages.nn.batches import GraphBatch as GraphBatch
from gsx.stages.nn.batches import Pair as Pair
from gsx.stages.nn.batches import batch_of as batch_of
from gsx.stages.nn.batches import multiply as multiply
from gsx.stages.nn.batches import pair_of as pair_of
from gsx.stages.nn.batches import pooled
from gsx.stages.nn.gin import Net, initialize
from gsx.stages.nn.weighted_spmm import weigh

MOMENTUM = 0.1
"""How fast norms forget; torch's own."""


class Dropout(nn.Module):
    """Dropout that draws from a stream of its own."""

    def __init__(self, rate: float, stream: torch.Generator) -> None:
        super().__init__()
        self.rate, self.stream = rate, stream

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows with a share of the values zeroed and the rest enlarged."""
        if not self.training or self.rate == 0:
            return rows
        keep = torch.rand(rows.shape, generator=self.stream, device=rows.device) >= self.rate
        return rows * keep / (1 - self.rate)


class Norm(nn.BatchNorm1d):
    """Batch norm over rows that may stand for several nodes each."""

    def shared(self, rows: Tensor, share: Tensor | None, nodes: int) -> Tensor:
        """Normalize rows that stand for ``share`` ``[R]`` of all nodes; None for one each."""
        rows = rows.to(self.weight.dtype)
        if share is None or not self.training:
            result: Tensor = self(rows)
            return result
        with torch.autocast(rows.device.type, enabled=False):
            mean = share @ rows
            centered = rows - mean
            variance = share @ centered.square()
        self._remember(mean.detach(), variance.detach() * (nodes / max(nodes - 1, 1)))
        return centered * (self.weight / (variance + self.eps).sqrt()) + self.bias

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        for kept, now in ((self.running_mean, mean), (self.running_var, variance)):
            if kept is not None:
                kept.lerp_(now, MOMENTUM)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked += 1


class WordSum(nn.Module):
    """Sum of one embedding per value of a row; the tables of all values lie in one."""

    def __init__(self, words: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.words = words
        self.table = nn.Embedding(sum(words), width)
        self.start: Tensor
        starts = torch.tensor([0, *words[:-1]]).cumsum(dim=0)
        self.register_buffer("start", starts, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Return ``[R, width]`` for codes ``[R, F]``."""
        return functional.embedding_bag(codes + self.start, self.table.weight, mode="sum")

    def draw(self, stream: torch.Generator) -> None:
        """Draw every table after Glorot."""
        for table in torch.split(self.table.weight.detach(), list(self.words)):
            nn.init.xavier_uniform_(table, generator=stream)


def encoder(features: int, words: tuple[int, ...], width: int) -> nn.Module:
    """Return embeddings for codes, or a linear map for numbers."""
    return WordSum(words, width) if words else nn.Linear(features, width)


class Layer(nn.Module):
    """One round of messages, up to and with the norm after it."""

    def __init__(self, entering: int, shape: BackboneShape) -> None:
        super().__init__()
        width = shape.width
        self.enlarge = nn.Linear(entering, 2 * width)
        self.inner = Norm(2 * width)
        self.reduce = nn.Linear(2 * width, width)
        self.norm = Norm(width)
        self.edge: nn.Module | None = None
        if shape.reads_edges:
            self.edge = encoder(shape.edge_features, shape.edge_words, entering)

    def forward(self, batch: GraphBatch, rows: Tensor, number: int) -> Tensor:
        """Return new rows ``[R', width]``."""
        share = None
        if self.edge is not None and batch.edges is not None:
            src, dst, values = batch.edges
            message = (rows.index_select(0, src) + self.edge(values)).relu()
            if batch.weights is not None:
                message = message * batch.weights[:, None]
            rows = rows.index_add(0, dst, message)
        elif batch.links is not None and batch.weights is not None:
            rows = rows + weigh(batch.links, batch.weights, rows)
        else:
            step = batch.rounds[number]
            rows, share = multiply(step.links, rows), step.share
        rows = self.inner.shared(self.enlarge(rows), share, batch.nodes).relu()
        return self.norm.shared(self.reduce(rows), share, batch.nodes)


class Virtual(nn.Module):
    """A node that every node of a graph is joined to."""

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
        rows = rows if batch.share is None else rows * batch.share
        sums = multiply(batch.pool, rows) * batch.sizes[:, None]
        result: Tensor = self.net(sums + state)
        return result


class Encoder(nn.Module):
    """Graphs to states of their nodes."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.atoms = WordSum(shape.words, shape.width) if shape.words else None
        self.inputs = shape.width if shape.words else shape.features
        widths = (self.inputs, *[shape.width] * (shape.layers - 1))
        self.layers = nn.ModuleList(Layer(width, shape) for width in widths)
        self.dropout = Dropout(dropout, stream)
        self.virtual = Virtual(shape.width, self.dropout) if shape.backbone == "vgin" else None

    def entering(self, batch: GraphBatch) -> tuple[int, int]:
        """Return how many rows, of which width, enter the first layer."""
        return len(batch.rows), self.inputs

    def states(self, batch: GraphBatch) -> Tensor:
        """Return the states of rows after the last round, ``[R, width]``."""
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


class Backbone(Encoder):
    """Graphs to features and logits."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__(shape, dropout, stream)
        self.classify = nn.Linear(shape.width, shape.outputs)

    @classmethod
    def fresh(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> Backbone:
        """Return a network with weights drawn from ``weights``."""
        return draw_weights(cls(shape, dropout, stream), weights)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[G, width]`` and logits ``[G, outputs]``."""
        features = pooled(batch, self.states(batch))
        return features, self.classify(features)


def draw_weights(net: Net, weights: torch.Generator) -> Net:
    """Draw all weights of a network from a stream; embeddings of words as Glorot."""
    net = initialize(net, weights)
    for part in net.modules():
        if isinstance(part, WordSum):
            part.draw(weights)
    return net
