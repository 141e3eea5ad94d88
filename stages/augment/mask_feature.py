"""MaskFeature: features are set to zero with one probability; nothing else changes.

As in Thakoor et al. (2022), whom the paper cites, a feature is masked for all nodes of a graph at
once (``columns``). ``nodes`` masks all features of some nodes, as GRAND does; ``values`` every
value by itself. Features that are words become the first word, code 0, as PyG's ``mask_feature``
has it; of atoms, number 0 and charge -5 are words that no atom has.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints, pointers, rows_of
from gsx.stages.graphs.node_features import Features

Masked = Literal["columns", "nodes", "values"]


def mask_features(
    features: Array, node_ptr: Ints, rate: float, masked: Masked, stream: np.random.Generator
) -> tuple[Array, Array]:
    """Return features ``[N, F]`` of graphs with some set to zero, and which, ``[N, F]``."""
    nodes, width = features.shape
    if masked == "columns":
        hidden = (stream.random((len(node_ptr) - 1, width)) < rate)[rows_of(node_ptr)]
    elif masked == "nodes":
        hidden = np.broadcast_to(stream.random((nodes, 1)) < rate, features.shape)
    else:
        hidden = stream.random((nodes, width)) < rate
    return np.where(hidden, np.zeros((), features.dtype), features), hidden


def mask_rows(
    features: Features, rows: Ints, rate: float, masked: Masked, stream: np.random.Generator
) -> Features:
    """Return features ``[N, F]`` with some of the given rows set to zero; others keep their bits.

    The rows belong to one graph: with ``columns`` they are masked alike. Sparse features lose the
    values that are masked.
    """
    if not isinstance(features, csr_matrix):
        found: Array = features.copy()
        whole = np.array([0, len(rows)])
        found[rows] = mask_features(features[rows], whole, rate, masked, stream)[0]
        return found
    inside = np.zeros(features.shape[0], dtype=bool)
    inside[rows] = True
    row = rows_of(features.indptr.astype(np.int64))
    if masked == "columns":
        hidden = (stream.random(features.shape[1]) < rate)[features.indices]
    elif masked == "nodes":
        hidden = (stream.random(features.shape[0]) < rate)[row]
    else:
        hidden = stream.random(features.nnz) < rate
    keep = ~(hidden & inside[row])
    ptr = pointers(np.bincount(row[keep], minlength=features.shape[0]))
    return csr_matrix((features.data[keep], features.indices[keep], ptr), shape=features.shape)
