"""Graph isomorphism networks that sum over neighbors by a sparse-dense product (spmm).

On a CPU, spmm with a sorted matrix is several times faster than gather and scatter. Graphs are
undirected, so the matrix is its own transpose and serves both passes.

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

NetworkT = TypeVar("NetworkT", bound=nn.Module)


class _NeighborSum(torch.autograd.Function):
    """Product of a symmetric sparse matrix and dense rows."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401
        ctx.matrix = matrix
        return matrix @ rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401
        return None, ctx.matrix @ grad


def sum_neighbors(matrix: Tensor, rows: Tensor) -> Tensor:
    """Return the sum of every node's neighbor rows, ``[N, width]``."""
    result: Tensor = _NeighborSum.apply(matrix, rows)  # type: ignore[no-untyped-call]
    return result


def adjacency_matrix(table: GraphTable, device: torch.device) -> Tensor:
    """Return the block-diagonal adjacency matrix of all graphs of ``table`` as a CSR tensor.

    Edges must be sorted by source.
    """
    src, dst = global_edges(table)
    size = table.total_nodes
    ptr = np.searchsorted(src, np.arange(size + 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(ptr),
            torch.from_numpy(dst),
            torch.ones(len(dst)),
            size=(size, size),
            check_invariants=False,
        )
    return matrix.to(device)


class GINLayer(nn.Module):
    """One GIN layer: an MLP of a node's state plus the sum of its neighbors' states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
        )

    def forward(self, matrix: Tensor, rows: Tensor) -> Tensor:
        """Return new rows ``[N, width]``."""
        result: Tensor = self.net(rows + sum_neighbors(matrix, rows))
        return result


class InputLayer(nn.Sequential):
    """Map inputs to states. The last ``num_categories`` inputs are one-hot categories.

    Batch norm applies to numeric inputs only: it would scale a rare category to a value in the
    hundreds.
    """

    def __init__(self, features: int, width: int, num_categories: int) -> None:
        num_numeric = features - num_categories
        super().__init__(nn.BatchNorm1d(num_numeric), nn.Linear(features, width), nn.ReLU())
        self.num_numeric = num_numeric

    def forward(self, rows: Tensor) -> Tensor:
        """Return states ``[N, width]``."""
        norm, linear, relu = self
        numeric = norm(rows[:, : self.num_numeric])
        states: Tensor = relu(linear(torch.cat([numeric, rows[:, self.num_numeric :]], dim=1)))
        return states


class GIN(nn.Module):
    """GIN that returns the node states after the input layer and after every GIN layer."""

    def __init__(self, features: int, width: int, layers: int, num_categories: int = 0) -> None:
        super().__init__()
        self.enter = InputLayer(features, width, num_categories)
        self.layers = nn.ModuleList(GINLayer(width) for _ in range(layers))

    def forward(self, matrix: Tensor, features: Tensor) -> list[Tensor]:
        """Return ``layers + 1`` states ``[N, width]``."""
        states: list[Tensor] = [self.enter(features)]
        for layer in self.layers:
            states.append(layer(matrix, states[-1]))
        return states


def init_weights(network: NetworkT, generator: torch.Generator) -> NetworkT:
    """Draw the weights of linear and embedding layers from ``generator``, in place."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, generator=generator)
    return network
