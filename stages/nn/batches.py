"""Batches of graphs as tensors: node rows, neighbor sums by spmm, mean pooling."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from gsx.ragged import Array, Ints, row_indices
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.wl_dedup import dedup_plan
from gsx.stages.nn.weighted_spmm import CsrEdges
from gsx.table import GraphTable

MIN_POOL_WEIGHT = 1e-12
"""Lower bound of a graph's total node weight when a weighted mean is taken."""


Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
"""Length of a tensor."""
_Categories = Annotated[tuple[Size, ...], msgspec.Meta(max_length=4096)]
Readout = Literal["mean", "sum", "mean+size"]
"""How node states become features of a graph."""
Layers = Annotated[int, msgspec.Meta(ge=0, le=256)]
"""Number of layers."""
SELECTOR_LAYERS = 2
"""Default number of message-passing layers of an edge scorer."""
EdgeRule = Literal["weights", "likely"]
"""``weights``: an edge is weighted by the sigmoid of its score. ``likely``: an edge is kept if this
probability is larger than one half. All nodes stay."""


class EdgeSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a network that selects a subgraph before it predicts the label."""

    ratio: float | msgspec.UnsetType = msgspec.UNSET
    """Fraction of the edges to select; omitted with a ``rule``."""
    layers: Layers = SELECTOR_LAYERS
    """Message-passing layers of the edge scorer; at most those of the backbone."""
    rule: EdgeRule | msgspec.UnsetType = msgspec.UNSET
    """How scores become weights of all edges; omitted if a ratio of the edges is selected."""

    def __post_init__(self) -> None:
        if (self.ratio is msgspec.UNSET) == (self.rule is msgspec.UNSET):
            raise ValueError("`select` needs either a ratio or a rule")


class BackboneShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything needed to build a network again. Serialized next to the weights."""

    backbone: Literal["gin", "vgin", "gcn"]
    features: Size
    """Values per node."""
    words: _Categories = ()
    """Number of categories of each value of a node; empty for numeric values."""
    edge_features: Size = 0
    edge_words: _Categories = ()
    """Number of categories of each value of an edge; empty for numeric values."""
    width: Size
    layers: Layers
    outputs: Size
    select: EdgeSelection | msgspec.UnsetType = msgspec.UNSET
    """Set for networks that select a subgraph first; omitted for networks on whole graphs."""
    readout: Readout | msgspec.UnsetType = msgspec.UNSET
    """How node states become features of a graph; omitted for the mean."""

    @property
    def reads_edges(self) -> bool:
        """Whether messages depend on edge features."""
        return self.edge_features > 0


@dataclass(frozen=True, slots=True, eq=False)
class SparseMatrix:
    """A CSR matrix and its transpose, for the forward and the backward pass."""

    matrix: Tensor
    transpose: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class MessagePassingRound:
    """Input of one message-passing layer."""

    neighbor_sum: SparseMatrix
    """``[R', R]`` matrix that adds to each row its neighbors' rows."""
    row_share: Tensor | None
    """``[R']`` fraction of the nodes that each new row represents. None if every row is one
    node."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeStructure:
    """Edge indices of a batch, needed to take subgraphs of its graphs."""

    edges: CsrEdges
    reverse: Tensor
    """``[E]`` index of the reverse of every edge."""
    undirected: Tensor
    """Indices of edges, one per pair of directions."""
    node_graph: Tensor
    """``[N]`` graph of every node."""
    edge_graph: Tensor
    """``[E]`` graph of every edge."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphBatch:
    """A batch of graphs as network input.

    ``R`` is the number of node rows. Rows that are equal for all WL-equivalent nodes are stored
    once, so ``R`` may be less than the number of nodes.
    """

    rows: Tensor
    """``[R, F]`` features."""
    num_nodes: int
    rounds: tuple[MessagePassingRound, ...]
    pool: SparseMatrix
    """``[G, R]`` matrix that takes the mean over the nodes of each graph."""
    sizes: Tensor
    """``[G]`` number of nodes."""
    attributed_edges: tuple[Tensor, Tensor, Tensor] | None = None
    """Sources ``[E]``, destinations ``[E]`` and features ``[E, F]``, if messages depend on edge
    features."""
    noise: Tensor | None = None
    """``[R, inputs]`` perturbation that is added to the input of the first layer."""
    structure: EdgeStructure | None = None
    """Edge indices, if subgraphs are taken."""
    weighted_edges: CsrEdges | None = None
    edge_weights: Tensor | None = None
    """``[E]`` weights of ``weighted_edges``. None if all are 1; then ``rounds`` apply."""
    node_weights: Tensor | None = None
    """``[N, 1]`` weights of nodes in pooling; None if all are 1."""


def build_graph_batch(
    batch: GraphTable, shape: BackboneShape, device: torch.device, *, with_edges: bool = False
) -> GraphBatch:
    """Return the graphs of a table as network input.

    Edges must be sorted by source and stored in both directions. With a node column ``colors``,
    WL-equivalent nodes are computed once (``wl_dedup``). Subgraphs need edge indices
    (``with_edges``, or a network that selects edges) and a table without colors.
    """
    features = batch.dense("node", "node_feat")
    plan = dedup_plan(batch, 0 if shape.reads_edges else shape.layers)
    rows = features[plan.first].astype(np.int64 if shape.words else np.float32)
    num_rows, rounds = len(rows), []
    for step in plan.rounds:
        num_new_rows = len(step.ptr) - 1
        one_row_per_node = num_rows == num_new_rows == batch.total_nodes
        matrix = _csr_with_transpose(step.ptr, step.columns, num_rows, symmetric=one_row_per_node)
        num_rows = num_new_rows
        row_share = None
        if step.count is not None:
            row_share = torch.from_numpy((step.count / batch.total_nodes).astype(np.float32))
        rounds.append(
            MessagePassingRound(
                _move(matrix, device), None if row_share is None else row_share.to(device)
            )
        )
    weight = np.repeat(1 / np.maximum(batch.num_nodes, 1), batch.num_nodes)
    attributed_edges = None
    if shape.reads_edges:
        values = batch.dense("edge", "edge_attr")
        values = values.astype(np.int64 if shape.edge_words else np.float32)
        src, dst = map(torch.from_numpy, global_edges(batch))
        attributed_edges = (src.to(device), dst.to(device), torch.from_numpy(values).to(device))
    return GraphBatch(
        rows=torch.from_numpy(rows).to(device),
        num_nodes=batch.total_nodes,
        rounds=tuple(rounds),
        pool=_move(_csr_with_transpose(batch.node_ptr, plan.last, num_rows, weight), device),
        sizes=torch.from_numpy(batch.num_nodes).to(device),
        attributed_edges=attributed_edges,
        structure=_edge_structure(batch, device) if with_edges or shape.select else None,
    )


def _edge_structure(batch: GraphTable, device: torch.device) -> EdgeStructure:
    src, dst = global_edges(batch)
    reverse = np.lexsort((src, dst))

    def on_device(values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return EdgeStructure(
        edges=CsrEdges(
            on_device(np.searchsorted(src, np.arange(batch.total_nodes + 1))),
            on_device(src),
            on_device(dst),
        ),
        reverse=on_device(reverse),
        undirected=on_device(np.flatnonzero(reverse >= np.arange(len(reverse)))),
        node_graph=on_device(row_indices(batch.node_ptr)),
        edge_graph=on_device(batch.edge_graph()),
    )


def _csr_with_transpose(
    ptr: Ints,
    columns: Ints,
    num_columns: int,
    values: Array | None = None,
    *,
    symmetric: bool = False,
) -> SparseMatrix:
    values = np.ones(len(columns)) if values is None else values
    shape = (len(ptr) - 1, num_columns)
    matrix = csr_matrix((values.astype(np.float32), columns, ptr), shape=shape)
    forward = _to_torch(matrix)
    return SparseMatrix(forward, forward if symmetric else _to_torch(matrix.T.tocsr()))


def csr_tensor(ptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor, without torch's warning about its beta state."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(ptr, columns, values, size=size, check_invariants=False)


def sparse_matrix(matrix: csr_matrix, device: torch.device) -> SparseMatrix:
    """Return a SciPy matrix and its transpose as float32 tensors on ``device``."""
    matrix = matrix.astype(np.float32)
    return _move(SparseMatrix(_to_torch(matrix), _to_torch(matrix.T.tocsr())), device)


def _to_torch(matrix: csr_matrix) -> Tensor:
    ptr, columns, values = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    return csr_tensor(ptr, columns, values, matrix.shape)


def _move(matrix: SparseMatrix, device: torch.device) -> SparseMatrix:
    if device.type == "cpu":
        return matrix
    return SparseMatrix(matrix.matrix.to(device), matrix.transpose.to(device))


class _Spmm(torch.autograd.Function):
    """Product of a constant sparse matrix and a dense matrix."""

    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, rows: Tensor) -> Tensor:  # noqa: ANN401
        ctx.transpose = matrix.transpose
        with torch.autocast(rows.device.type, enabled=False):
            return matrix.matrix @ rows.to(matrix.matrix.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401
        return None, ctx.transpose @ grad


def spmm(matrix: SparseMatrix, rows: Tensor) -> Tensor:
    """Return the sparse-dense product; only ``rows`` receives a gradient."""
    result: Tensor = _Spmm.apply(matrix, rows)  # type: ignore[no-untyped-call]
    return result


def mean_pool(batch: GraphBatch, rows: Tensor) -> Tensor:
    """Return the mean over the nodes of each graph, ``[G, width]``, weighted by node weights."""
    if batch.node_weights is None:
        return spmm(batch.pool, rows)
    mean_weight = spmm(batch.pool, batch.node_weights).clamp_min(MIN_POOL_WEIGHT)
    return spmm(batch.pool, rows * batch.node_weights) / mean_weight


def graph_sizes(batch: GraphBatch) -> Tensor:
    """Return the number of nodes of each graph, ``[G, 1]``; with node weights, their sum."""
    sizes = batch.sizes[:, None].float()
    if batch.node_weights is None:
        return sizes
    return spmm(batch.pool, batch.node_weights) * sizes
