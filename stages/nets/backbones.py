"""Backbones of graph classifiers as in GOOD: GIN, and GIN with a virtual node.

Shapes follow the published code: sums of neighbors, eps 0, Linear-BN-ReLU-Linear per layer, then
BN-ReLU-Dropout, no ReLU after the last layer, mean pooling, a linear classifier. Where edges have
features a message is ReLU(neighbor + edge).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn import functional

from gsx.ragged import Array, Ints
from gsx.stages.kernels.folding import folds
from gsx.stages.kernels.subgraphs import global_edges
from gsx.stages.nets.gin import initialize
from gsx.table import GraphTable

MOMENTUM = 0.1
"""How fast norms forget; torch's own."""


class BackboneShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that must be known to build a network again."""

    backbone: Literal["gin", "vgin", "gcn"]
    features: int
    """Values per node."""
    words: tuple[int, ...] = ()
    """Words of every value of a node, where the values are codes; empty for numbers."""
    edge_features: int = 0
    edge_words: tuple[int, ...] = ()
    """The same of edges."""
    width: int
    layers: int
    outputs: int

    @property
    def reads_edges(self) -> bool:
        """Whether messages depend on features of edges."""
        return self.edge_features > 0


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A sparse matrix and its transpose, for the two passes."""

    matrix: Tensor
    transpose: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a layer sees of a batch."""

    links: Pair
    """``[R', R]``: rows to sums of a row and its neighbors."""
    share: Tensor | None
    """``[R']`` share of the nodes each new row stands for; None where all stand for one."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphBatch:
    """Graphs as a network reads them."""

    rows: Tensor
    """``[R, F]`` features."""
    nodes: int
    rounds: tuple[Round, ...]
    pool: Pair
    """``[G, R]`` means over the nodes of each graph."""
    sizes: Tensor
    """``[G]`` nodes."""
    edges: tuple[Tensor, Tensor, Tensor] | None = None
    """Ends ``[E]`` and features ``[E, F]`` of edges, where messages depend on them."""
    noise: Tensor | None = None
    """``[R, entering]`` what is added to what enters the first layer."""


def batch_of(batch: GraphTable, shape: BackboneShape, device: torch.device) -> GraphBatch:
    """Lay a table out for a network; edges must be sorted by source and in both directions.

    Nodes with a column ``colors`` are folded: those that cannot differ are computed once.
    """
    features = batch.dense("node", "node_feat")
    found = folds(batch, 0 if shape.reads_edges else shape.layers)
    rows = features[found.first].astype(np.int64 if shape.words else np.float32)
    before, rounds = len(rows), []
    for fold in found.rounds:
        after = len(fold.ptr) - 1
        apart = before == after == batch.total_nodes
        links = _pair(fold.ptr, fold.columns, before, symmetric=apart)
        before = after
        share = None
        if fold.count is not None:
            share = torch.from_numpy((fold.count / batch.total_nodes).astype(np.float32))
        rounds.append(Round(_to(links, device), None if share is None else share.to(device)))
    weight = np.repeat(1 / np.maximum(batch.num_nodes, 1), batch.num_nodes)
    edges = None
    if shape.reads_edges:
        values = batch.dense("edge", "edge_attr")
        values = values.astype(np.int64 if shape.edge_words else np.float32)
        src, dst = map(torch.from_numpy, global_edges(batch))
        edges = (src.to(device), dst.to(device), torch.from_numpy(values).to(device))
    return GraphBatch(
        rows=torch.from_numpy(rows).to(device),
        nodes=batch.total_nodes,
        rounds=tuple(rounds),
        pool=_to(_pair(batch.node_ptr, found.last, before, weight), device),
        sizes=torch.from_numpy(batch.num_nodes).to(device),
        edges=edges,
    )


def _pair(
    ptr: Ints, columns: Ints, width: int, values: Array | None = None, *, symmetric: bool = False
) -> Pair:
    values = np.ones(len(columns)) if values is None else values
    size = (len(ptr) - 1, width)
    matrix = csr_matrix((values.astype(np.float32), columns, ptr), shape=size)
    forward = _sparse(matrix)
    return Pair(forward, forward if symmetric else _sparse(matrix.T.tocsr()))


def pair_of(matrix: csr_matrix, device: torch.device) -> Pair:
    """Return a sparse matrix and its transpose where a network computes."""
    matrix = matrix.astype(np.float32)
    return _to(Pair(_sparse(matrix), _sparse(matrix.T.tocsr())), device)


def _sparse(matrix: csr_matrix) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=False,
        )


def _to(pair: Pair, device: torch.device) -> Pair:
    if device.type == "cpu":
        return pair
    return Pair(pair.matrix.to(device), pair.transpose.to(device))


class _Multiply(torch.autograd.Function):
    """Product of a sparse matrix and dense rows."""

    @staticmethod
    def forward(ctx: Any, pair: Pair, rows: Tensor) -> Tensor:  # noqa: ANN401
        ctx.transpose = pair.transpose
        with torch.autocast(rows.device.type, enabled=False):
            return pair.matrix @ rows.to(pair.matrix.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401
        return None, ctx.transpose @ grad


def multiply(pair: Pair, rows: Tensor) -> Tensor:
    """Return the product of a sparse matrix and rows."""
    result: Tensor = _Multiply.apply(pair, rows)  # type: ignore[no-untyped-call]
    return result


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
            rows = rows.index_add(0, dst, message)
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
        sums = multiply(batch.pool, rows) * batch.sizes[:, None]
        result: Tensor = self.net(sums + state)
        return result


class Backbone(nn.Module):
    """Graphs to features and logits."""

    def __init__(self, shape: BackboneShape, dropout: float, stream: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.atoms = WordSum(shape.words, shape.width) if shape.words else None
        self.inputs = shape.width if shape.words else shape.features
        widths = (self.inputs, *[shape.width] * (shape.layers - 1))
        self.layers = nn.ModuleList(Layer(width, shape) for width in widths)
        self.dropout = Dropout(dropout, stream)
        self.virtual = Virtual(shape.width, self.dropout) if shape.backbone == "vgin" else None
        self.classify = nn.Linear(shape.width, shape.outputs)

    @classmethod
    def fresh(
        cls, shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
    ) -> Backbone:
        """Return a network with weights drawn from ``weights``; embeddings of words as Glorot."""
        net = initialize(cls(shape, dropout, stream), weights)
        for part in net.modules():
            if isinstance(part, WordSum):
                part.draw(weights)
        return net

    def entering(self, batch: GraphBatch) -> tuple[int, int]:
        """Return how many rows, of which width, enter the first layer."""
        return len(batch.rows), self.inputs

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return features ``[G, width]`` and logits ``[G, outputs]``."""
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
        features = multiply(batch.pool, rows)
        return features, self.classify(features)
