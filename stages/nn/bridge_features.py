"""Node inputs of the bridge networks: structure, node features and edge attributes.

Integer columns with few distinct values are categories and become one-hot; other columns are
standardized; constant columns are dropped. The encoding is fitted on training graphs and stored
with the model, so that later graphs are encoded the same way.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from scipy.sparse import csr_array

from gsx.ragged import Array
from gsx.stages.graphs.structural_features import structural_features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

MAX_CATEGORIES = 64
"""Largest number of distinct integers in a column of categories."""


_Index = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
_Code = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class ColumnEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encoding of one feature column. Field names are part of the model file."""

    column: _Index
    words: tuple[_Code, ...] = ()
    """Categories, one input each; any other value sets none of them. Empty for numeric columns."""
    center: float = 0.0
    scale: float = 1.0


class BridgeEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encoding of the nodes and edges of a corpus. Field names are part of the model file."""

    node: tuple[ColumnEncoding, ...]
    edge: tuple[ColumnEncoding, ...]
    num_node_features: _Index
    num_edge_features: _Index
    """Columns of the corpus, including dropped ones. Another corpus must have the same number."""

    def __post_init__(self) -> None:
        """Check that every column exists and can be scaled."""
        for columns, count in (
            (self.node, self.num_node_features),
            (self.edge, self.num_edge_features),
        ):
            if any(column.column >= count or not column.scale for column in columns):
                raise ValueError(f"a column is not one of {count}, or has the scale 0")


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
    inputs = np.zeros((table.total_nodes, bridge_input_width(encoding)), dtype=np.float32)
    inputs[:, :6] = structural_features(table)
    inputs[:, 6] = np.log(np.repeat(table.num_nodes, table.num_nodes))
    end = 7 + _width(encoding.node)
    if encoding.node:
        _encode_columns(table.dense("node", "node_feat"), encoding.node, inputs[:, 7:end])
    if encoding.edge:
        attributes = table.dense("edge", "edge_attr")
        values = np.zeros((len(attributes), _width(encoding.edge)), dtype=np.float32)
        _encode_columns(attributes, encoding.edge, values)
        src, _ = global_edges(table)
        indices = (src, np.arange(len(src)))
        shape = (table.total_nodes, len(src))
        incidence = csr_array((np.ones(len(src), dtype=np.float32), indices), shape=shape)
        inputs[:, end:] = incidence @ values
    return inputs


def bridge_input_width(encoding: BridgeEncoding) -> int:
    """Return the width of ``bridge_inputs``."""
    return 7 + _width(encoding.node) + _width(encoding.edge)


def _width(columns: tuple[ColumnEncoding, ...]) -> int:
    return sum(len(column.words) or 1 for column in columns)


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


def _encode_columns(features: Array, encodings: tuple[ColumnEncoding, ...], out: Array) -> None:
    """Write the inputs of every column of ``features`` into ``out``, which holds zeros."""
    start = 0
    for encoding in encodings:
        values = features[:, encoding.column]
        if encoding.words:
            words = np.asarray(encoding.words)
            order = np.argsort(words)
            place = np.minimum(np.searchsorted(words[order], values), len(words) - 1)
            rows = np.flatnonzero(words[order[place]] == values)
            out[rows, start + order[place[rows]]] = 1
            start += len(words)
        else:
            out[:, start] = (values - encoding.center) / encoding.scale
            start += 1
