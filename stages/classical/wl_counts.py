"""Weisfeiler-Lehman subtree counts: how often each color of a vocabulary occurs in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.stages.graphs.wl_hash import Hashes, node_colors
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_DISTINCT = 512
"""Largest number of distinct rows of float features that are used as they are."""
BIN_BITS = 6
"""Continuous node features become one of ``2 ** BIN_BITS`` initial colors."""
FITTED_ROWS = 20_000
"""Largest number of nodes from which the bins of continuous features are estimated."""


def fit_vocabulary(table: GraphTable, rounds: int, min_graphs: int) -> dict[str, Array]:
    """Return the colors of at least ``min_graphs`` graphs, sorted, and how to bin features."""
    arrays = _fit_bins(table)
    graph, color = _colors(table, rounds, arrays)
    vocabulary, index = np.unique(color, return_inverse=True)
    if len(vocabulary):
        pairs = np.unique(graph * len(vocabulary) + index)
        graphs = np.bincount(pairs % len(vocabulary), minlength=len(vocabulary))
        vocabulary = vocabulary[graphs >= min_graphs]
    return {"vocabulary": vocabulary, **arrays}


def wl_counts(table: GraphTable, rounds: int, arrays: Mapping[str, Array]) -> csr_array:
    """Return the counts ``[G, V]`` of the colors of a vocabulary; other colors are dropped."""
    from scipy.sparse import coo_array

    vocabulary = arrays["vocabulary"]
    shape = (len(table), len(vocabulary))
    graph, color = _colors(table, rounds, arrays)
    column = np.searchsorted(vocabulary, color)
    kept = np.zeros(len(color), dtype=bool)
    if len(vocabulary):
        kept = vocabulary.take(column, mode="clip") == color
    ones = np.ones(int(kept.sum()), dtype=np.float32)
    return coo_array((ones, (graph[kept], column[kept])), shape=shape).tocsr()


def _colors(table: GraphTable, rounds: int, arrays: Mapping[str, Array]) -> tuple[Ints, Hashes]:
    """Return graph and color of every node in every round."""
    colors = node_colors(_initial_features(table, arrays), rounds)
    graph = row_indices(table.node_ptr)
    return np.tile(graph, rounds + 1), np.concatenate(colors)


def _initial_features(table: GraphTable, arrays: Mapping[str, Array]) -> GraphTable:
    """Return a table with the discrete features that initial colors depend on."""
    names = ["node_feat"]
    if "edge_attr" in table.edge and not arrays["continuous_edges"].any():
        names.append("edge_attr")
    plain = table.select(names)
    if "directions" not in arrays:
        return plain
    projected = _project(table.dense("node", "node_feat"), arrays)
    codes = [
        np.searchsorted(cuts, column)
        for cuts, column in zip(arrays["cuts"], projected.T, strict=True)
    ]
    return plain.with_columns(node={"node_feat": np.column_stack(codes).astype(np.int32)})


def _project(values: Array, arrays: Mapping[str, Array]) -> Array:
    projected: Array = (values - arrays["center"]).astype(np.float32) @ arrays["directions"]
    return projected


def _fit_bins(table: GraphTable) -> dict[str, Array]:
    """Return how to bin node features, if they are continuous, and whether edge features are.

    Continuous node features are projected onto their leading principal components; each component
    is cut at quantiles of the training nodes.
    """
    edges = table.edge.get("edge_attr")
    continuous_edges = isinstance(edges, np.ndarray) and _is_continuous(edges)
    arrays: dict[str, Array] = {"continuous_edges": np.array([continuous_edges])}
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray) or not _is_continuous(values):
        return arrays
    step = -(-len(values) // FITTED_ROWS)
    rows = values[::step].astype(np.float64)
    spread = rows.std(axis=0)
    inverse = 1 / np.where(spread > 0, spread, 1)
    center = rows.mean(axis=0)
    standardized = (rows - center) * inverse
    components = min(BIN_BITS, rows.shape[1])
    _, vectors = np.linalg.eigh(standardized.T @ standardized)
    directions = inverse[:, None] * vectors[:, ::-1][:, :components]
    bins = {"center": center.astype(np.float32), "directions": directions.astype(np.float32)}
    levels = np.arange(1, 2 ** (BIN_BITS // components)) / 2 ** (BIN_BITS // components)
    cuts = np.quantile(_project(values[::step], bins), levels, axis=0).T
    return {**arrays, **bins, "cuts": cuts.astype(np.float32)}


def _is_continuous(values: Array) -> bool:
    """Return whether rows are floats with many distinct values."""
    if values.dtype.kind != "f":
        return False
    # A stride keeps the check cheap; continuous values are distinct in any subset.
    step = -(-len(values) // FITTED_ROWS) or 1
    return len(np.unique(values[::step], axis=0)) > MAX_DISTINCT
