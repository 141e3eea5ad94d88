"""Graphs as vectors without any training: what surroundings their nodes have, and how large."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.seeds import rng
from gsx.stages.graphs.statistics import degrees
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.wl_hash import node_colors
from gsx.table import GraphTable

ROUNDS = 2
WIDTH = 32
"""Random directions per round; inner products of histograms survive the projection."""
FEW_KINDS = 4096
"""Distinct rows of features up to which they are read as words, not as numbers."""


def embed(table: GraphTable) -> Array:
    """Return one vector per graph, ``[G, D]``: shares of surroundings, and the log of its size.

    Where features are words, nodes count by their Weisfeiler-Lehman color, projected to random
    directions. Where they are numbers, by the mean of features and of neighbors' features.
    """
    size = np.log(np.maximum(table.num_nodes, 1)).astype(np.float64)[:, None]
    parts = [_colors(table)] if _are_words(table) else [_numbers(table)]
    return np.concatenate([*parts, size], axis=1)


def _are_words(table: GraphTable) -> bool:
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray) or values.dtype.kind in "iu":
        return True
    return len(np.unique(values[: 1 << 16], axis=0)) <= FEW_KINDS and values.shape[1] <= 64


def _colors(table: GraphTable) -> Array:
    owner = row_indices(table.node_ptr)
    found = []
    for depth, colors in enumerate(node_colors(table, ROUNDS)):
        kinds, kind = np.unique(colors, return_inverse=True)
        directions = np.stack(
            [_direction(int(color), depth) for color in kinds]
        ) if len(kinds) else np.zeros((0, WIDTH))  # fmt: skip
        found.append(_means(directions[kind], owner, len(table)))
    return np.concatenate(found, axis=1)


def _direction(color: int, depth: int) -> Array:
    """Return the random direction of a color; equal colors have equal ones in every corpus."""
    bits = np.frombuffer(rng(depth, "embed", str(color)).bytes(WIDTH // 8), dtype=np.uint8)
    return np.unpackbits(bits).astype(np.float64) * 2 - 1


def _numbers(table: GraphTable) -> Array:
    values = table.dense("node", "node_feat").astype(np.float64)
    src, dst = global_edges(table)
    around = np.zeros_like(values)
    np.add.at(around, src, values[dst])
    degree = degrees(table)[:, None]
    around /= np.maximum(degree, 1)
    owner = row_indices(table.node_ptr)
    return np.concatenate(
        [_means(values, owner, len(table)), _means(around, owner, len(table)),
         _means(np.log1p(degree), owner, len(table))], axis=1,
    )  # fmt: skip


def _means(values: Array, owner: Ints, graphs: int) -> Array:
    total = np.zeros((graphs, values.shape[1]))
    np.add.at(total, owner, values)
    count = np.bincount(owner, minlength=graphs)[:, None]
    return np.asarray(total / np.maximum(count, 1))


def plane_of(vectors: Array, known: Array) -> tuple[Array, Array]:
    """Return standardized vectors and their places in the plane of most variance.

    ``known`` marks the rows that set the scale: those of training.
    """
    center, spread = vectors[known].mean(0), vectors.std(0)
    scaled = (vectors - center) / np.where(spread > 1e-9, spread, 1)
    _, _, axes = np.linalg.svd(scaled - scaled.mean(0), full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    flat = scaled @ (axes * signs[:, None])[:2].T
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, np.zeros(len(flat))])
    return scaled, flat


def nearest(vectors: Array, others: Array, block: int = 512) -> Array:
    """Return the distance of every vector to the nearest of the others."""
    found = np.empty(len(vectors))
    norms = (others**2).sum(1)
    for start in range(0, len(vectors), block):
        part = vectors[start : start + block]
        squares = (part**2).sum(1)[:, None] + norms - 2 * part @ others.T
        found[start : start + block] = np.sqrt(np.maximum(squares.min(1), 0))
    return found
