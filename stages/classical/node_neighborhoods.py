"""Features of nodes with their means over neighborhoods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gsx.ragged import Array
from gsx.schema import SPLITS
from gsx.stages.classical.mean_features import column_scales
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_FEATURES = 256
"""Largest number of features whose means over neighbors are computed one by one."""
COMPONENTS = 128
"""Singular vectors that replace more features in means over neighbors."""


def fit_neighborhoods(table: GraphTable) -> dict[str, Array]:
    """Return the number of features, the scale of dense ones, and what replaces many features.

    If the table has the column ``node_split``, only training nodes are read. Many features are
    replaced by projections on their leading singular vectors.
    """
    features = _features(table)
    if "node_split" in table.node:
        features = features[table.dense("node", "node_split") == SPLITS.index("train")]
    scale = np.ones(features.shape[1])
    if "node_feat" in table.node:
        scale = column_scales(features.toarray())
    arrays = {"scale": scale.astype(np.float32)}
    if features.shape[1] > MAX_FEATURES:
        from sklearn.decomposition import TruncatedSVD

        components = min(COMPONENTS, *(size - 1 for size in features.shape))
        svd = TruncatedSVD(n_components=components, random_state=0)
        svd.fit(_scaled(features, arrays["scale"]))
        arrays["components"] = np.ascontiguousarray(svd.components_.T, dtype=np.float32)
    return arrays


def neighborhood_features(table: GraphTable, arrays: Mapping[str, Array]) -> csr_array:
    """Return ``[N, …]``: features, their means after one and two steps to neighbors, and degree.

    The degree is log(1 + number of neighbors). Many features are projected before averages.
    """
    from scipy.sparse import csr_array, hstack

    features = _scaled(_features(table, len(arrays["scale"])), arrays["scale"])
    src, dst = global_edges(table)
    size = table.total_nodes
    degree = np.bincount(src, minlength=size)
    step = csr_array(((1 / degree[src]).astype(np.float32), (src, dst)), shape=(size, size))
    averaged = features @ arrays["components"] if "components" in arrays else features
    one = step @ averaged
    blocks = [features, one, step @ one, np.log1p(degree)[:, None]]
    return csr_array(hstack([csr_array(block) for block in blocks], format="csr"), dtype=np.float32)


def _scaled(features: csr_array, scale: Array) -> csr_array:
    features.data /= scale[features.indices]
    return features


def _features(table: GraphTable, width: int | None = None) -> csr_array:
    """Return dense or sparse node features; ``width`` limits features that are stored sparsely."""
    from scipy.sparse import csr_array

    if "node_feat" in table.node:
        return csr_array(table.dense("node", "node_feat").astype(np.float32))
    index, value = table.lists("node", "node_feat_index"), table.lists("node", "node_feat_value")
    if width is None:
        width = int(index.values.max(initial=-1)) + 1
    kept = index.values < width
    ends = np.concatenate([[0], np.cumsum(kept)])[index.ptr]
    return csr_array(
        (value.values[kept].astype(np.float32), index.values[kept], ends),
        shape=(table.total_nodes, width),
    )
