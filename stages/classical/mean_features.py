"""Sizes of graphs and means of node features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gsx.ragged import Array
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_CATEGORIES = 256
"""Largest number of distinct integers that count as categories."""


def sizes(table: GraphTable) -> csr_array:
    """Return ``[G, 2]``: log(1 + nodes) and log(1 + edges)."""
    from scipy.sparse import csr_array

    columns = np.column_stack([np.log1p(table.num_nodes), np.log1p(table.num_edges)])
    return csr_array(columns.astype(np.float32))


def fit_means(table: GraphTable) -> dict[str, Array]:
    """Return the categories of node features, and the standard deviation of the other features.

    Integer features are categories, unless they have too many values. Each category has a row in
    ``feature`` and ``category``.
    """
    values = table.dense("node", "node_feat")
    categories = [np.unique(column) for column in values.T] if values.dtype.kind in "iu" else []
    kept = [
        (feature, codes) for feature, codes in enumerate(categories) if len(codes) <= MAX_CATEGORIES
    ]
    lengths = [len(codes) for _, codes in kept]
    feature = np.repeat(np.array([feature for feature, _ in kept], dtype=np.int64), lengths)
    return {
        "scale": column_scales(np.delete(values, np.unique(feature), axis=1)),
        "feature": feature,
        "category": np.concatenate([np.zeros(0), *(codes for _, codes in kept)]).astype(np.int64),
    }


def column_scales(values: Array) -> Array:
    """Return the standard deviation of every column ``[F]``; 1 for a constant column."""
    scale = values.astype(np.float64).std(axis=0) if len(values) else np.ones(values.shape[1])
    return np.where(scale > 0, scale, 1)


def mean_features(table: GraphTable, arrays: Mapping[str, Array]) -> csr_array:
    """Return means of scaled node features, shares of categories, and log(1 + nodes)."""
    from scipy.sparse import csr_array, hstack

    values = table.dense("node", "node_feat")
    numeric = np.setdiff1d(np.arange(values.shape[1]), arrays["feature"])
    size = table.total_nodes
    per_node = 1 / np.maximum(table.num_nodes, 1)
    mean = csr_array(
        (np.repeat(per_node, table.num_nodes), np.arange(size), table.node_ptr),
        shape=(len(table), size),
    )
    blocks = [csr_array(mean @ (values[:, numeric] / arrays["scale"]))]
    for feature in np.unique(arrays["feature"]):
        codes = arrays["category"][arrays["feature"] == feature]
        column = np.searchsorted(codes, values[:, feature])
        node = np.flatnonzero(codes.take(column, mode="clip") == values[:, feature])
        one_hot = csr_array((np.ones(len(node)), (node, column[node])), shape=(size, len(codes)))
        blocks.append(mean @ one_hot)
    blocks.append(csr_array(np.log1p(table.num_nodes)[:, None]))
    return csr_array(hstack(blocks, format="csr")).astype(np.float32)
