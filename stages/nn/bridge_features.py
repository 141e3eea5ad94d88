"""Node inputs of the bridge networks: structure, node features and edge attributes.

Integer columns with few distinct values are categories and become one-hot; other columns are
standardized; constant columns are dropped. The encoding is fitted on training graphs and stored
with the model, so that later graphs are encoded the same way.
"""

from __future__ import annotations

import msgspec
import numpy as np
from scipy.sparse import csr_array

from gsx.ragged import Array
from gsx.stages.graphs.structural_features import structural_features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

MAX_CATEGORIES = 64
"""Largest number of distinct integers in a column of categories."""


class ColumnEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encoding of one feature column. Field names are part of the model file."""

    column: int
    words: tuple[int, ...] = ()
    """Categories, one input each; any other value sets none of them. Empty for numeric columns."""
    center: float = 0.0
    scale: float = 1.0


class BridgeEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encoding of the nodes and edges of a corpus. Field names are part of the model file."""

    node: tuple[ColumnEncoding, ...]
    edge: tuple[ColumnEncoding, ...]
    num_node_features: int
    num_edge_features: int
    """Columns of the corpus, including dropped ones. Another corpus must have the same number."""


def fit_bridge_encoding(table: GraphTable) -> BridgeEncoding:
    """Return the encoding of the features of ``table``."""
    node = table.dense("node", "node_feat")
    edge = table.dense("edge", "edge_attr") if "edge_attr" in table.edge else node[:0, :0]
    return BridgeEncoding(
        node=_fit_columns(node),
        edge=_fit_columns(edge),
        num_node_features=node.shape[1],
        num_edge_features=edge.shape[1],
    )


def bridge_inputs(table: GraphTable, encoding: BridgeEncoding) -> Array:
    """Return the network inputs of every node, ``[N, I]`` float32.

    Edge attributes are summed over the edges of a node.
    """
    log_size = np.log(np.repeat(table.num_nodes, table.num_nodes))
    columns = [structural_features(table), log_size[:, None]]
    if encoding.node:
        columns.append(_encode_columns(table.dense("node", "node_feat"), encoding.node))
    if encoding.edge:
        values = _encode_columns(table.dense("edge", "edge_attr"), encoding.edge)
        src, _ = global_edges(table)
        indices = (src, np.arange(len(src)))
        shape = (table.total_nodes, len(src))
        incidence = csr_array((np.ones(len(src), dtype=np.float32), indices), shape=shape)
        columns.append(incidence @ values)
    return np.column_stack(columns).astype(np.float32)


def bridge_input_width(encoding: BridgeEncoding) -> int:
    """Return the width of ``bridge_inputs``."""
    return 7 + sum(len(column.words) or 1 for column in (*encoding.node, *encoding.edge))


def _fit_columns(features: Array) -> tuple[ColumnEncoding, ...]:
    encodings = []
    for column in range(features.shape[1] if len(features) else 0):
        values = features[:, column]
        low, high = values.min(), values.max()
        if low == high:
            continue
        categories = _categories(values)
        if categories:
            encodings.append(ColumnEncoding(column=column, words=categories))
        else:
            center = float(values.mean(dtype=np.float64))
            scale = float(values.std(dtype=np.float64))
            encodings.append(ColumnEncoding(column=column, center=center, scale=scale))
    return tuple(encodings)


def _categories(values: Array) -> tuple[int, ...]:
    if values.dtype.kind not in "iu":
        return ()
    categories = np.unique(values)
    return tuple(categories.tolist()) if len(categories) <= MAX_CATEGORIES else ()


def _encode_columns(features: Array, encodings: tuple[ColumnEncoding, ...]) -> Array:
    columns = []
    for encoding in encodings:
        values = features[:, encoding.column]
        if encoding.words:
            columns.append(values[:, None] == np.asarray(encoding.words, dtype=values.dtype))
        else:
            columns.append(((values - encoding.center) / encoding.scale)[:, None])
    return np.column_stack(columns).astype(np.float32)
