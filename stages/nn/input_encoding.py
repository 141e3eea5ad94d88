"""What networks see of every node: its place in the structure, its features, its edges' features.

Whole numbers of few kinds are categories, and networks see which one it is, never its number. They
stay codes in memory and are spread out only where a batch is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Array, Ints
from gsx.stages.graphs.structural_features import STRUCTURE_FEATURES, structure_features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

MOST_KINDS = 64
"""Distinct whole numbers up to which a column holds categories."""
READ_NODES = 1 << 16
"""Nodes looked at together when nothing is learned; a larger graph is looked at alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """How the columns of one feature array are read, fixed by the training graphs."""

    kinds: tuple[tuple[int, Array], ...]
    """Columns of categories, each with its sorted values; unseen values are no category."""
    reals: tuple[int, ...]
    """Columns of numbers."""

    @property
    def width(self) -> int:
        """Categories in all, unseen ones left out."""
        return sum(len(values) for _, values in self.kinds)

    def codes(self, features: Array) -> Ints:
        """Return the category of every value, ``[R, K]``, counted over columns; -1 unseen."""
        codes = np.full((len(features), len(self.kinds)), -1, dtype=np.int64)
        first = 0
        for place, (column, values) in enumerate(self.kinds):
            at = np.minimum(np.searchsorted(values, features[:, column]), len(values) - 1)
            seen = values[at] == features[:, column]
            codes[seen, place] = first + at[seen]
            first += len(values)
        return codes

    def numbers(self, features: Array) -> Array:
        """Return the columns of numbers, ``[R, F]`` float32."""
        return features[:, list(self.reals)].astype(np.float32)


def coding_of(features: Array) -> Coding:
    """Decide how to read ``[R, F]`` features; constant columns are left out."""
    kinds, reals = [], []
    for column in range(features.shape[1]):
        values = np.unique(features[:, column])
        if len(values) < 2:
            continue
        if features.dtype.kind in "iub" and len(values) <= MOST_KINDS:
            kinds.append((column, values))
        else:
            reals.append(column)
    return Coding(tuple(kinds), tuple(reals))


def spread(codes: Ints, width: int) -> Array:
    """Return codes ``[R, K]`` as zeros and ones, ``[R, width]`` float32."""
    rows, places = np.nonzero(codes >= 0)
    dense = np.zeros((len(codes), width), dtype=np.float32)
    dense[rows, codes[rows, places]] = 1
    return dense


def with_structure(graphs: GraphTable) -> GraphTable:
    """Add the column ``numbers`` ``[N, S]``: structure, sums over a node's edges, own numbers.

    On a subgraph, structure and edges are those of the subgraph.
    """
    parts = [structure_features(graphs)]
    if "edge_inputs" in graphs.edge:
        values = graphs.dense("edge", "edge_inputs")
        src, _ = global_edges(graphs)
        sums = [np.bincount(src, v, minlength=graphs.total_nodes) for v in values.T]
        parts.append(np.column_stack(sums).astype(np.float32))
    parts.append(graphs.dense("node", "reals"))
    return graphs.with_columns(node={"numbers": np.column_stack(parts).astype(np.float32)})


def rows_for(batch: GraphTable, kinds: int, device: torch.device) -> Tensor:
    """Return what networks see of the nodes of a batch, ``[N, S + kinds]``."""
    numbers = batch.dense("node", "numbers")
    if kinds:
        numbers = np.column_stack([numbers, spread(batch.dense("node", "codes"), kinds)])
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device)


def input_width(graphs: GraphTable, kinds: int) -> int:
    """Return how many inputs a node has."""
    edges = graphs.dense("edge", "edge_inputs").shape[1] if "edge_inputs" in graphs.edge else 0
    reals: int = graphs.dense("node", "reals").shape[1]
    return len(STRUCTURE_FEATURES) + edges + reals + kinds


def parts_of(graphs: GraphTable) -> Iterator[GraphTable]:
    """Yield runs of graphs that fit in memory together, at least one graph each."""
    start = 0
    while start < len(graphs):
        limit = graphs.node_ptr[start] + READ_NODES
        stop = max(int(np.searchsorted(graphs.node_ptr, limit, side="right")) - 1, start + 1)
        yield graphs.slice(start, stop)
        start = stop
