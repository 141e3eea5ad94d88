"""Graph isomorphism networks that aggregate through a sorted sparse matrix.

Sparse times dense is several times faster than gather and scatter on a CPU. Graphs are
undirected, so the matrix is its own transpose and serves both passes.
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

Net = TypeVar("Net", bound=nn.Module)


class _Aggregate(torch.autograd.Function):
    """Product of a symmetric sparse matrix and dense rows."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401
        ctx.matrix = matrix
        return matrix @ rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401
        return None, ctx.matrix @ grad


def aggregate(matrix: Tensor, rows: Tensor) -> Tensor:
    """Sum the rows of every node's neighbors."""
    result: Tensor = _Aggregate.apply(matrix, rows)  # type: ignore[no-untyped-call]
    return result


def adjacency(table: GraphTable, device: torch.device) -> Tensor:
    """Return all graphs of ``table`` as one sparse block matrix; edges must be sorted by source."""
    src, dst = global_edges(table)
    size = table.total_nodes
    rows = np.searchsorted(src, np.arange(size + 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(rows),
            torch.from_numpy(dst),
            torch.ones(len(dst)),
            size=(size, size),
            check_invariants=False,
        )
    return matrix.to(device)


class GINLayer(nn.Module):
    """One round: a node and the sum of its neighbors through a small network."""

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
        result: Tensor = self.net(rows + aggregate(matrix, rows))
        return result


class Entrance(nn.Sequential):
    """Inputs to states; the last ``kinds`` inputs are categories, 0 or 1.

    Only numbers are normalized: a rare category would get a value in the hundreds.
    """

    def __init__(self, features: int, width: int, kinds: int) -> None:
        numbers = features - kinds
        super().__init__(nn.BatchNorm1d(numbers), nn.Linear(features, width), nn.ReLU())
        self.numbers = numbers

    def forward(self, rows: Tensor) -> Tensor:
        """Return states ``[N, width]``."""
        norm, linear, rectify = self
        numbers = norm(rows[:, : self.numbers])
        states: Tensor = rectify(linear(torch.cat([numbers, rows[:, self.numbers :]], dim=1)))
        return states


class GIN(nn.Module):
    """Input features to node states after every layer, the input layer included."""

    def __init__(self, features: int, width: int, layers: int, kinds: int = 0) -> None:
        super().__init__()
        self.enter = Entrance(features, width, kinds)
        self.layers = nn.ModuleList(GINLayer(width) for _ in range(layers))

    def forward(self, matrix: Tensor, features: Tensor) -> list[Tensor]:
        """Return ``layers + 1`` states ``[N, width]``."""
        states: list[Tensor] = [self.enter(features)]
        for layer in self.layers:
            states.append(layer(matrix, states[-1]))
        return states


def initialize(module: Net, generator: torch.Generator) -> Net:
    """Draw all weights from a named stream instead of torch's global one."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            bound = 1 / math.sqrt(part.in_features)
            nn.init.uniform_(part.weight, -bound, bound, generator=generator)
            if part.bias is not None:
                nn.init.uniform_(part.bias, -bound, bound, generator=generator)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, generator=generator)
    return module
