"""Messages with a weight on every edge, through which a network that sets the weights learns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Edges over all nodes of a batch, sorted by source, each stored in both directions."""

    ptr: Tensor
    """``[N + 1]`` pointers of nodes to the edges that leave them."""
    src: Tensor
    """``[E]``."""
    dst: Tensor
    """``[E]``."""


class _Weigh(torch.autograd.Function):
    """Product of a symmetric sparse matrix, whose values are learned, and dense rows."""

    @staticmethod
    def forward(ctx: Any, links: Links, weights: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401
        rows = rows.to(weights.dtype)
        ctx.links = links
        ctx.save_for_backward(weights, rows)
        return _matrix(links, weights) @ rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:  # noqa: ANN401
        links: Links = ctx.links
        weights, rows = ctx.saved_tensors
        of_weights = of_rows = None
        if ctx.needs_input_grad[1]:
            ends = grad.index_select(0, links.src), rows.index_select(0, links.dst)
            of_weights = (ends[0] * ends[1]).sum(dim=1)
        if ctx.needs_input_grad[2]:
            of_rows = _matrix(links, weights) @ grad
        return None, of_weights, of_rows


def weigh(links: Links, weights: Tensor, rows: Tensor) -> Tensor:
    """Sum the rows ``[N, F]`` of every node's neighbors, times ``weights`` ``[E]`` of the edges.

    An edge must weigh the same in both directions.
    """
    with torch.autocast(rows.device.type, enabled=False):
        result: Tensor = _Weigh.apply(links, weights, rows)  # type: ignore[no-untyped-call]
    return result


def _matrix(links: Links, weights: Tensor) -> Tensor:
    size = len(links.ptr) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            links.ptr, links.dst, weights, size=(size, size), check_invariants=False
        )
