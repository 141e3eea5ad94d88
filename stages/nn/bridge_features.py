"""What a network sees of nodes: their structure, their features, the attributes of their edges.

Columns of whole numbers with few distinct values are words and become one-hot; other columns are
scaled; columns that never vary are left out. The code is learned from training graphs once and
travels with the model, so that later graphs are read the same way.
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
"""Distinct whole numbers above which a column is read as a quantity."""


class ColumnEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one column of features is read."""

    column: int
    words: tuple[int, ...] = ()
    """Values that get a unit each; any other value lights none of them."""
    center: float = 0.0
    scale: float = 1.0


class BridgeEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the nodes and edges of a corpus are read."""

    node: tuple[ColumnEncoding, ...]
    edge: tuple[ColumnEncoding, ...]
    num_node_features: int
    num_edge_features: int
    """Columns the corpus has, read or not; another corpus must have as many."""


def fit_bridge_encoding(table: GraphTable) -> BridgeEncoding:
    """Return how to read the features of ``table`` and of graphs like it."""
    node = table.dense("node", "node_feat")
    edge = table.dense("edge", "edge_attr") if "edge_attr" in table.edge else node[:0, :0]
    return BridgeEncoding(
        node=_fit_columns(node),
        edge=_fit_columns(edge),
        num_node_features=node.shape[1],
        num_edge_features=edge.shape[1],
    )


def bridge_inputs(table: GraphTable, code: BridgeEncoding) -> Array:
    """Return the inputs of every node, ``[N, I]`` float32.

    Attributes of edges are summed over the edges of a node.
    """
    size = np.log(np.repeat(table.num_nodes, table.num_nodes))
    parts = [structural_features(table), size[:, None]]
    if code.node:
        parts.append(_encode_columns(table.dense("node", "node_feat"), code.node))
    if code.edge:
        values = _encode_columns(table.dense("edge", "edge_attr"), code.edge)
        src, _ = global_edges(table)
        at = (src, np.arange(len(src)))
        shape = (table.total_nodes, len(src))
        parts.append(csr_array((np.ones(len(src), dtype=np.float32), at), shape=shape) @ values)
    return np.column_stack(parts).astype(np.float32)


def bridge_input_width(code: BridgeEncoding) -> int:
    """Return the width of ``bridge_inputs``."""
    return 7 + sum(len(part.words) or 1 for part in (*code.node, *code.edge))


def _fit_columns(values: Array) -> tuple[ColumnEncoding, ...]:
    codes = []
    for column in range(values.shape[1] if len(values) else 0):
        found = values[:, column]
        low, high = found.min(), found.max()
        if low == high:
            continue
        words = _categories(found)
        if words:
            codes.append(ColumnEncoding(column=column, words=words))
        else:
            center, scale = float(found.mean(dtype=np.float64)), float(found.std(dtype=np.float64))
            codes.append(ColumnEncoding(column=column, center=center, scale=scale))
    return tuple(codes)


def _categories(values: Array) -> tuple[int, ...]:
    if values.dtype.kind not in "iu":
        return ()
    words = np.unique(values)
    return tuple(words.tolist()) if len(words) <= MAX_CATEGORIES else ()


def _encode_columns(values: Array, codes: tuple[ColumnEncoding, ...]) -> Array:
    parts = []
    for code in codes:
        found = values[:, code.column]
        if code.words:
            parts.append(found[:, None] == np.asarray(code.words, dtype=found.dtype))
        else:
            parts.append(((found - code.center) / code.scale)[:, None])
    return np.column_stack(parts).astype(np.float32)
