"""Structural node features: degree and return probabilities of random walks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

STRUCTURAL_FEATURES = ("log_degree", "return_2", "return_3", "return_4", "return_5", "return_6")


def structural_features(table: GraphTable) -> npt.NDArray[np.float32]:
    """Return ``[N, 6]``: log(1 + degree) and the probability that a walk returns after k = 2..6.

    Only the two- and three-step transition matrices are computed. The return probability after
    a + b steps combines a walk of a steps with a walk of b steps back.
    """
    src, dst = global_edges(table)
    size = table.total_nodes
    degree = np.bincount(src, minlength=size).astype(np.float64)
    step = csr_array((1 / degree[src], (src, dst)), shape=(size, size))
    two = step @ step
    three = two @ step
    back_two, back_three = two.T.tocsr(), three.T.tocsr()
    returns = [
        two.diagonal(),
        three.diagonal(),
        (two * back_two).sum(axis=1),
        (two * back_three).sum(axis=1),
        (three * back_three).sum(axis=1),
    ]
    return np.column_stack([np.log1p(degree), *returns]).astype(np.float32)
