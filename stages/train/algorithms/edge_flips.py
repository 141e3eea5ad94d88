"""Edges put in where there are none, and taken out where there are."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Ints


def flipped(edges: csr_matrix, left: Ints, right: Ints) -> csr_matrix:
    """Return ``edges`` with every pair of ``left`` and ``right`` flipped, in both directions.

    A pair that is named twice is flipped once, a node and itself never. New edges weigh 1; the
    others keep their weights.
    """
    apart = left != right
    ends = np.concatenate([left[apart], right[apart]]), np.concatenate([right[apart], left[apart]])
    flips = csr_matrix((np.ones(len(ends[0])), ends), shape=edges.shape)
    flips.data[:] = 1
    there = edges.copy()
    there.data = np.ones_like(there.data)
    added = flips - flips.multiply(there)
    found = csr_matrix(edges - edges.multiply(flips) + added)
    found.eliminate_zeros()
    found.sort_indices()
    return found
