"""Features of nodes as rows: dense, or CSR where a corpus stores them sparse."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ragged
from gsx.schema import CorpusInfo
from gsx.table import GraphTable, Values

Features: TypeAlias = Array | csr_matrix

COLUMNS = frozenset({"node_feat", "node_feat_index", "node_feat_value"})
"""Columns that features may lie in."""


def features_of(table: GraphTable, info: CorpusInfo) -> Features:
    """Return the features ``[N, F]`` of all nodes; what is sparse stays sparse."""
    if not info.sparse:
        return table.dense("node", "node_feat")
    index, value = table.lists("node", "node_feat_index"), table.lists("node", "node_feat_value")
    shape = (table.total_nodes, info.num_features)
    return csr_matrix((value.values, index.values, index.ptr), shape=shape)


def feature_columns(features: Features) -> dict[str, Values]:
    """Return the columns that hold features; indices of sparse rows must rise."""
    if not isinstance(features, csr_matrix):
        return {"node_feat": features}
    ptr = features.indptr.astype(np.int64)
    return {
        "node_feat_index": Ragged(ptr, features.indices.astype(np.int32)),
        "node_feat_value": Ragged(ptr, features.data),
    }
