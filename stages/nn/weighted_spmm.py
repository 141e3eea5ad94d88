"""Sparse-dense matrix product (spmm) with edge weights that receive gradients."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class CsrEdges:
    """Edges of all graphs of a batch, sorted by source. Both directions of an edge are stored."""

    ptr: Tensor
    """``[N + 1]`` offsets of the edges of each source node."""
    src: Tensor
    """``[E]`` source nodes."""
    dst: Tensor
    """``[E]`` destination nodes."""


class _WeightedSpmm(torch.autograd.Function):
    """Product of a symmetric sparse matrix with learned values and a dense matrix."""

    @staticmethod
    def forward(ctx: Any, edges: CsrEdges, weights: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401
        rows = rows.to(weights.dtype)
        ctx.edges = edges
        ctx.save_for_backward(weights, rows)
        return _csr_matrix(edges, weights) @ rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:  # noqa: ANN401
        edges: CsrEdges = ctx.edges
        weights, rows = ctx.saved_tensors
        weights_grad = rows_grad = None
        if ctx.needs_input_grad[1]:
            factors = grad.index_select(0, edges.src), rows.index_select(0, edges.dst)
            weights_grad = (factors[0] * factors[1]).sum(dim=1)
        if ctx.needs_input_grad[2]:
            rows_grad = _csr_matrix(edges, weights) @ grad
        return None, weights_grad, rows_grad


def weighted_spmm(edges: CsrEdges, weights: Tensor, rows: Tensor) -> Tensor:
    """Return for every node the sum of its neighbors' rows, weighted by edge, ``[N, F]``.

    ``weights`` is ``[E]`` and must be equal for both directions of an edge; ``rows`` is ``[N, F]``.
    Both receive gradients.
    """
    with torch.autocast(rows.device.type, enabled=False):
        result: Tensor = _WeightedSpmm.apply(edges, weights, rows)  # type: ignore[no-untyped-call]
    return result


def _csr_matrix(edges: CsrEdges, weights: Tensor) -> Tensor:
    size = len(edges.ptr) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            edges.ptr, edges.dst, weights, size=(size, size), check_invariants=False
        )
