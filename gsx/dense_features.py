"""Sparse node features as dense rows. Without torch, so that exports start quickly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gsx.ragged import row_indices
from gsx.schema import CorpusInfo
from gsx.table import GraphTable


def densify_features(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Return the table with sparse node features converted to dense rows."""
    if not info.sparse:
        return table
    index, value = table.lists("node", "node_feat_index"), table.lists("node", "node_feat_value")
    rows = np.zeros((len(index), info.num_features), dtype=value.values.dtype)
    rows[row_indices(index.ptr), index.values] = value.values
    others = {k: v for k, v in table.node.items() if not k.startswith("node_feat_")}
    return replace(table, node={"node_feat": rows, **others})
