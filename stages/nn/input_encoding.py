"""Node inputs of the extractor networks: structure, edge features and node features.

Integer columns with few distinct values are categories and become one-hot. Categories are stored as
codes and expanded only when a batch is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Array, Ints
from gsx.stages.graphs.structural_features import STRUCTURAL_FEATURES, structural_features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

MAX_CATEGORIES = 64
"""Largest number of distinct integers in a column of categories."""
MAX_BATCH_NODES = 1 << 16
"""Nodes per batch at inference. A larger graph is a batch by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureEncoding:
    """Encoding of the columns of a feature array, fitted on training graphs."""

    categorical: tuple[tuple[int, Array], ...]
    """Categorical columns, each with its sorted values. Other values belong to no category."""
    numeric: tuple[int, ...]
    """Numeric columns."""

    @property
    def num_categories(self) -> int:
        """Number of categories of all columns."""
        return sum(len(values) for _, values in self.categorical)

    def codes(self, features: Array) -> Ints:
        """Return category codes ``[R, K]``, numbered over all columns; -1 for unknown values."""
        codes = np.full((len(features), len(self.categorical)), -1, dtype=np.int64)
        first = 0
        for index, (column, values) in enumerate(self.categorical):
            code = np.minimum(np.searchsorted(values, features[:, column]), len(values) - 1)
            matches = values[code] == features[:, column]
            codes[matches, index] = first + code[matches]
            first += len(values)
        return codes

    def numeric_values(self, features: Array) -> Array:
        """Return the numeric columns, ``[R, F]`` float32."""
        return features[:, list(self.numeric)].astype(np.float32)


def fit_encoding(features: Array) -> FeatureEncoding:
    """Return the encoding of features ``[R, F]``; constant columns are dropped."""
    categorical, numeric = [], []
    for column in range(features.shape[1]):
        values = np.unique(features[:, column])
        if len(values) < 2:
            continue
        if features.dtype.kind in "iub" and len(values) <= MAX_CATEGORIES:
            categorical.append((column, values))
        else:
            numeric.append(column)
    return FeatureEncoding(tuple(categorical), tuple(numeric))


def one_hot(codes: Ints, num_categories: int) -> Array:
    """Return codes ``[R, K]`` as zeros and ones, ``[R, num_categories]`` float32."""
    rows, columns = np.nonzero(codes >= 0)
    dense = np.zeros((len(codes), num_categories), dtype=np.float32)
    dense[rows, codes[rows, columns]] = 1
    return dense


def add_numeric_inputs(graphs: GraphTable) -> GraphTable:
    """Add a node column ``numeric_inputs`` ``[N, S]``.

    It holds structural features, sums of edge features over each node's edges, and numeric node
    features. For subgraphs, only the nodes and edges of the subgraph count.
    """
    inputs = [structural_features(graphs)]
    if "edge_inputs" in graphs.edge:
        values = graphs.dense("edge", "edge_inputs")
        src, _ = global_edges(graphs)
        sums = [np.bincount(src, v, minlength=graphs.total_nodes) for v in values.T]
        inputs.append(np.column_stack(sums).astype(np.float32))
    inputs.append(graphs.dense("node", "numeric"))
    return graphs.with_columns(node={"numeric_inputs": np.column_stack(inputs).astype(np.float32)})


def node_inputs(batch: GraphTable, num_categories: int, device: torch.device) -> Tensor:
    """Return the network inputs of the nodes of a batch, ``[N, S + num_categories]``."""
    inputs = batch.dense("node", "numeric_inputs")
    if num_categories:
        inputs = np.column_stack([inputs, one_hot(batch.dense("node", "codes"), num_categories)])
    return torch.from_numpy(np.ascontiguousarray(inputs)).to(device)


def input_width(graphs: GraphTable, num_categories: int) -> int:
    """Return the number of network inputs of a node."""
    edges = graphs.dense("edge", "edge_inputs").shape[1] if "edge_inputs" in graphs.edge else 0
    numeric: int = graphs.dense("node", "numeric").shape[1]
    return len(STRUCTURAL_FEATURES) + edges + numeric + num_categories


def iter_graph_batches(graphs: GraphTable) -> Iterator[GraphTable]:
    """Yield consecutive graphs in batches of at most ``MAX_BATCH_NODES`` nodes, or one graph."""
    start = 0
    while start < len(graphs):
        limit = graphs.node_ptr[start] + MAX_BATCH_NODES
        stop = max(int(np.searchsorted(graphs.node_ptr, limit, side="right")) - 1, start + 1)
        yield graphs.slice(start, stop)
        start = stop
