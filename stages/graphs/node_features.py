"""Node features of a table: dense, or CSR if the corpus stores them sparsely."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ragged
from gsx.schema import CorpusInfo
from gsx.table import GraphTable, Values

Features: TypeAlias = Array | csr_matrix

COLUMNS = frozenset({"node_feat", "node_feat_index", "node_feat_value"})
"""Columns that hold node features."""


def node_features(table: GraphTable, info: CorpusInfo) -> Features:
    """Return the features ``[N, F]`` of all nodes; sparse features stay sparse."""
    if not info.sparse:
        return table.dense("node", "node_feat")
    index, value = table.lists("node", "node_feat_index"), table.lists("node", "node_feat_value")
    shape = (table.total_nodes, info.num_features)
    return csr_matrix((value.values, index.values, index.ptr), shape=shape)


def feature_columns(features: Features) -> dict[str, Values]:
    """Return the table columns for features; indices of sparse rows must be increasing."""
    if not isinstance(features, csr_matrix):
        return {"node_feat": features}
    ptr = features.indptr.astype(np.int64)
    return {
        "node_feat_index": Ragged(ptr, features.indices.astype(np.int32)),
        "node_feat_value": Ragged(ptr, features.data),
    }
