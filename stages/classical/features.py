"""Feature spaces of linear models: fitted on training graphs or nodes, applied to any others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from gsx.errors import UsageError, did_you_mean
from gsx.ragged import Array
from gsx.stages.classical.fingerprints import BITS, morgan_counts
from gsx.stages.classical.mean_features import fit_means, mean_features, sizes
from gsx.stages.classical.node_neighborhoods import fit_neighborhoods, neighborhood_features
from gsx.stages.classical.wl_counts import fit_vocabulary, wl_counts
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind = Literal["wl", "morgan", "size", "mean", "node"]
Counts = Literal["counts", "log", "shares"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COUNTS: tuple[Counts, ...] = get_args(Counts)
COUNTED: tuple[Kind, ...] = ("wl", "morgan")
"""Kinds that count, so that ``counts`` applies."""
ROUNDS = 3
"""Default number of Weisfeiler-Lehman rounds."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeatureSpace:
    """A function from graphs or nodes to sparse feature vectors, with what it learned from data."""

    kind: Kind
    counts: Counts
    """How counts of ``wl`` and ``morgan`` become features."""
    rounds: int
    """Weisfeiler-Lehman rounds."""
    arrays: Mapping[str, Array]
    """Arrays learned from the training table, by name."""

    def transform(self, table: GraphTable) -> csr_array:
        """Return float32 features: one row per graph, for ``node`` one row per node."""
        return self.scale(self.count(table), table)

    def count(self, table: GraphTable) -> csr_array:
        """Return the features before ``scale``, which do not depend on ``counts``."""
        if self.kind == "wl":
            return wl_counts(table, self.rounds, self.arrays)
        if self.kind == "morgan":
            return morgan_counts(table, BITS)
        if self.kind == "node":
            return neighborhood_features(table, self.arrays)
        return mean_features(table, self.arrays) if self.kind == "mean" else sizes(table)

    def scale(self, matrix: csr_array, table: GraphTable) -> csr_array:
        """Return counts of a table as features; ``matrix`` may be changed."""
        if self.kind not in COUNTED:
            return matrix
        return _scaled_counts(matrix, table, self.counts)


def fit_features(
    kind: Kind,
    table: GraphTable,
    *,
    counts: Counts = "counts",
    rounds: int = ROUNDS,
    min_graphs: int = 2,
) -> FeatureSpace:
    """Return the feature space of a kind, fitted on a training table without its labels.

    - ``wl``: how often each Weisfeiler-Lehman color of rounds 0 to ``rounds`` occurs in a graph,
      for colors of at least ``min_graphs`` training graphs. Reads ``node_feat`` and ``edge_attr``.
    - ``morgan``: folded Morgan count fingerprints of the column ``smiles``.
    - ``size``: logarithms of the numbers of nodes and of edges.
    - ``mean``: means of node features, and the logarithm of the number of nodes.
    - ``node``: per node, its features and their means over 1-hop and 2-hop neighbors.

    ``counts`` applies to ``wl`` and ``morgan``: plain counts, ``log`` (1 + count), or ``shares``
    (counts per node, and the logarithm of the number of nodes as a further column).
    """
    if kind not in KINDS:
        raise UsageError(f"no features of kind `{kind}`. {did_you_mean(kind, KINDS)}")
    if counts not in COUNTS:
        raise UsageError(f"no variant `{counts}` of counts. {did_you_mean(counts, COUNTS)}")
    if counts != "counts" and kind not in COUNTED:
        raise UsageError(f"features of kind `{kind}` are no counts. Remove `{counts}`.")
    arrays: dict[str, Array] = {}
    if kind == "wl":
        arrays = fit_vocabulary(table, rounds, min_graphs)
    elif kind == "mean":
        arrays = fit_means(table)
    elif kind == "node":
        arrays = fit_neighborhoods(table)
    return FeatureSpace(kind=kind, counts=counts, rounds=rounds, arrays=arrays)


def _scaled_counts(matrix: csr_array, table: GraphTable, counts: Counts) -> csr_array:
    from scipy.sparse import csr_array, hstack

    if counts == "log":
        matrix.data = np.log1p(matrix.data)
    elif counts == "shares":
        per_node = 1 / np.maximum(table.num_nodes, 1).astype(np.float32)
        matrix.data *= np.repeat(per_node, np.diff(matrix.indptr))
        matrix = csr_array(hstack([matrix, np.log1p(table.num_nodes)[:, None]], format="csr"))
    return matrix.astype(np.float32)
