"""Untrained graph embeddings: Weisfeiler-Lehman colors or mean features, and graph size."""

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
"""Random directions per round; the projection preserves inner products of histograms."""
MAX_DISTINCT = 4096
"""Largest number of distinct feature rows that are treated as categories."""


def embed(table: GraphTable) -> Array:
    """Return one vector per graph, ``[G, D]``.

    Categorical features: histogram of Weisfeiler-Lehman colors, randomly projected. Numerical
    features: means of node features, of neighbor features and of log degrees. The last entry is the
    log of the number of nodes.
    """
    size = np.log(np.maximum(table.num_nodes, 1)).astype(np.float64)[:, None]
    blocks = [_color_features(table)] if _is_categorical(table) else [_mean_features(table)]
    return np.concatenate([*blocks, size], axis=1)


def _is_categorical(table: GraphTable) -> bool:
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray) or values.dtype.kind in "iu":
        return True
    return len(np.unique(values[: 1 << 16], axis=0)) <= MAX_DISTINCT and values.shape[1] <= 64


def _color_features(table: GraphTable) -> Array:
    owner = row_indices(table.node_ptr)
    blocks = []
    for depth, colors in enumerate(node_colors(table, ROUNDS)):
        distinct, color_index = np.unique(colors, return_inverse=True)
        directions = np.stack(
            [_direction(int(color), depth) for color in distinct]
        ) if len(distinct) else np.zeros((0, WIDTH))  # fmt: skip
        blocks.append(_means(directions[color_index], owner, len(table)))
    return np.concatenate(blocks, axis=1)


def _direction(color: int, depth: int) -> Array:
    """Return the random direction of a color, the same in every corpus."""
    bits = np.frombuffer(rng(depth, "embed", str(color)).bytes(WIDTH // 8), dtype=np.uint8)
    return np.unpackbits(bits).astype(np.float64) * 2 - 1


def _mean_features(table: GraphTable) -> Array:
    values = table.dense("node", "node_feat").astype(np.float64)
    src, dst = global_edges(table)
    neighbor_means = np.zeros_like(values)
    np.add.at(neighbor_means, src, values[dst])
    degree = degrees(table)[:, None]
    neighbor_means /= np.maximum(degree, 1)
    owner = row_indices(table.node_ptr)
    return np.concatenate(
        [_means(values, owner, len(table)), _means(neighbor_means, owner, len(table)),
         _means(np.log1p(degree), owner, len(table))], axis=1,
    )  # fmt: skip


def _means(values: Array, owner: Ints, graphs: int) -> Array:
    total = np.zeros((graphs, values.shape[1]))
    np.add.at(total, owner, values)
    count = np.bincount(owner, minlength=graphs)[:, None]
    return np.asarray(total / np.maximum(count, 1))


def project_to_plane(vectors: Array, is_train: Array) -> tuple[Array, Array]:
    """Return standardized vectors, and their 2-D projection by PCA.

    Vectors are centered at the mean of the rows in ``is_train``.
    """
    center, deviation = vectors[is_train].mean(0), vectors.std(0)
    scaled = (vectors - center) / np.where(deviation > 1e-9, deviation, 1)
    _, _, axes = np.linalg.svd(scaled - scaled.mean(0), full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    positions = scaled @ (axes * signs[:, None])[:2].T
    if positions.shape[1] < 2:
        positions = np.column_stack([positions, np.zeros(len(positions))])
    return scaled, positions


def nearest_distances(vectors: Array, others: Array, block: int = 512) -> Array:
    """Return the distance of every vector to the nearest of ``others``."""
    distances = np.empty(len(vectors))
    norms = (others**2).sum(1)
    for start in range(0, len(vectors), block):
        rows = vectors[start : start + block]
        squares = (rows**2).sum(1)[:, None] + norms - 2 * rows @ others.T
        distances[start : start + block] = np.sqrt(np.maximum(squares.min(1), 0))
    return distances
