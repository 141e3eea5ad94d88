"""MaskFeature: set features to zero with the same probability; nothing else changes.

As in Thakoor et al. (2022), which the paper cites, a feature is masked for all nodes of a graph
(``columns``). ``nodes`` masks all features of single nodes, as in GRAND; ``values`` masks single
values. Categorical features become code 0, as in PyG's ``mask_feature``. For atoms, number 0 and
charge -5 are codes that no real atom has.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints, pointers, row_indices
from gsx.stages.graphs.node_features import Features

MaskMode = Literal["columns", "nodes", "values"]


def mask_features(
    features: Array, node_ptr: Ints, rate: float, mode: MaskMode, stream: np.random.Generator
) -> tuple[Array, Array]:
    """Return features ``[N, F]`` with some set to zero, and which are masked, ``[N, F]``."""
    nodes, width = features.shape
    if mode == "columns":
        masked = (stream.random((len(node_ptr) - 1, width)) < rate)[row_indices(node_ptr)]
    elif mode == "nodes":
        masked = np.broadcast_to(stream.random((nodes, 1)) < rate, features.shape)
    else:
        masked = stream.random((nodes, width)) < rate
    return np.where(masked, np.zeros((), features.dtype), features), masked


def mask_rows(
    features: Features, rows: Ints, rate: float, mode: MaskMode, stream: np.random.Generator
) -> Features:
    """Return features ``[N, F]`` with values of the given rows masked; other rows are unchanged.

    The rows belong to one graph, so ``columns`` masks the same features in all of them. Masked
    values of sparse features are removed.
    """
    if not isinstance(features, csr_matrix):
        result: Array = features.copy()
        node_ptr = np.array([0, len(rows)])
        result[rows] = mask_features(features[rows], node_ptr, rate, mode, stream)[0]
        return result
    is_given = np.zeros(features.shape[0], dtype=bool)
    is_given[rows] = True
    row = row_indices(features.indptr.astype(np.int64))
    if mode == "columns":
        masked = (stream.random(features.shape[1]) < rate)[features.indices]
    elif mode == "nodes":
        masked = (stream.random(features.shape[0]) < rate)[row]
    else:
        masked = stream.random(features.nnz) < rate
    keep = ~(masked & is_given[row])
    ptr = pointers(np.bincount(row[keep], minlength=features.shape[0]))
    return csr_matrix((features.data[keep], features.indices[keep], ptr), shape=features.shape)
