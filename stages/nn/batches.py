"""Graphs as networks read them: rows of nodes, sums over neighbors, means over graphs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from gsx.ragged import Array, Ints, rows_of
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.wl_dedup import folds
from gsx.stages.nn.weighted_spmm import Links
from gsx.table import GraphTable

SMALLEST = 1e-12
"""Least of a graph that its means are divided by."""


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a network selects of every graph before it tells the label."""

    ratio: float
    """Share of the edges."""
    layers: int = 2
    """Rounds of messages before edges are scored."""


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
    select: Selection | msgspec.UnsetType = msgspec.UNSET
    """Where a part of every graph is selected first; left out where the network reads it all."""

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
class Structure:
    """Edges of a batch whose graphs are to be cut."""

    links: Links
    back: Tensor
    """``[E]`` place of every edge's way back."""
    once: Tensor
    """Places of edges, each in one direction."""
    owner: Tensor
    """``[N]`` graph of every node."""
    edge_owner: Tensor
    """``[E]`` graph of every edge."""


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
    structure: Structure | None = None
    """Where graphs are to be cut."""
    links: Links | None = None
    weights: Tensor | None = None
    """``[E]`` weight of every edge of ``links``; None where all weigh one, and ``rounds`` hold."""
    share: Tensor | None = None
    """``[N, 1]`` how much of every node is there; None where all of it is."""


def batch_of(
    batch: GraphTable, shape: BackboneShape, device: torch.device, *, cuts: bool = False
) -> GraphBatch:
    """Lay a table out for a network; edges must be sorted by source and in both directions.

    Nodes with a column ``colors`` are folded: those that cannot differ are computed once. Where
    graphs are to be cut, by the network or with ``cuts`` by a learner, there must be no colors.
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
        structure=_structure(batch, device) if cuts or shape.select else None,
    )


def _structure(batch: GraphTable, device: torch.device) -> Structure:
    src, dst = global_edges(batch)
    back = np.lexsort((src, dst))

    def there(values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return Structure(
        links=Links(
            there(np.searchsorted(src, np.arange(batch.total_nodes + 1))), there(src), there(dst)
        ),
        back=there(back),
        once=there(np.flatnonzero(back >= np.arange(len(back)))),
        owner=there(rows_of(batch.node_ptr)),
        edge_owner=there(batch.edge_graph()),
    )


def _pair(
    ptr: Ints, columns: Ints, width: int, values: Array | None = None, *, symmetric: bool = False
) -> Pair:
    values = np.ones(len(columns)) if values is None else values
    size = (len(ptr) - 1, width)
    matrix = csr_matrix((values.astype(np.float32), columns, ptr), shape=size)
    forward = _sparse(matrix)
    return Pair(forward, forward if symmetric else _sparse(matrix.T.tocsr()))


def csr(ptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse matrix by rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(ptr, columns, values, size=size, check_invariants=False)


def pair_of(matrix: csr_matrix, device: torch.device) -> Pair:
    """Return a sparse matrix and its transpose where a network computes."""
    matrix = matrix.astype(np.float32)
    return _to(Pair(_sparse(matrix), _sparse(matrix.T.tocsr())), device)


def _sparse(matrix: csr_matrix) -> Tensor:
    ptr, columns, values = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    return csr(ptr, columns, values, matrix.shape)


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


def pooled(batch: GraphBatch, rows: Tensor) -> Tensor:
    """Return means over the nodes of each graph, ``[G, width]``, by how much of each is there."""
    if batch.share is None:
        return multiply(batch.pool, rows)
    there = multiply(batch.pool, batch.share).clamp_min(SMALLEST)
    return multiply(batch.pool, rows * batch.share) / there
