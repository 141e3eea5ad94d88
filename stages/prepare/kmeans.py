"""k-means clustering of graphs or nodes, to infer environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.schema import Feature
from gsx.table import GraphTable

MAX_GROUPS = 8
"""Largest number of groups."""
_LLOYD_ROUNDS = 50
_MIN_GROUP_SHARE = 0.05
"""Minimum share of points per group."""
_MAX_DIMENSIONS = 16
"""Principal components that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphEmbedding:
    """Feature vectors of graphs or nodes."""

    points: Array
    """``[n, D]``"""
    parts: Mapping[str, Array]
    """Name → centered feature block ``[n, k]`` that the points are made of."""

    def variance_between_groups(self, group: Ints) -> dict[str, float]:
        """Return the share of between-group variance of each block, in descending order."""
        count = np.maximum(np.bincount(group), 1)[:, None]
        shares = {}
        for name, values in self.parts.items():
            total = np.zeros((len(count), values.shape[1]))
            np.add.at(total, group, values)
            variance = float((values**2).sum())
            shares[name] = float((total**2 / count).sum()) / variance if variance > 0 else 0.0
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


def embed_graphs(table: GraphTable, words: tuple[Feature, ...]) -> GraphEmbedding:
    """Return a feature vector per graph: size, density and node features.

    Categorical features (with ``words``) are represented by the share of nodes per category, others
    by their mean. Size, density and each categorical feature have a total variance of 1, so that a
    rare category has little weight.
    """
    nodes = np.maximum(table.num_nodes, 1)
    names = [feature.name for feature in words] or ["features"]
    sums = zip(names, _feature_sums(table, words), strict=False)  # empty for sparse features
    return _principal_components(
        {
            "size": np.log(nodes)[:, None],
            "density": (table.num_edges / nodes)[:, None],
            **{name: total / nodes[:, None] for name, total in sums},
        }
    )


def embed_nodes(features: Array, degree: Ints) -> GraphEmbedding:
    """Return a feature vector per node from its features ``[N, F]`` and its degree.

    The degree and the features have a total variance of 1 each.
    """
    return _principal_components(
        {
            "degree": np.log1p(degree)[:, None],
            "features": np.asarray(features, dtype=np.float64),
        }
    )


def kmeans(points: Array, generator: np.random.Generator, most: int = MAX_GROUPS) -> Ints:
    """Return the k-means group of every point ``[n]``, from 0; k is chosen automatically.

    Lloyd's algorithm runs for every k from 2 to ``most``. The k with the best simplified silhouette
    and no tiny group is kept. If every k has a tiny group, the points are split at the median of
    the direction of largest variance. Identical points form one group.
    """
    if not len(points) or not points.shape[1] or not (points != points[0]).any():
        return np.zeros(len(points), dtype=np.int64)
    best, kept = -np.inf, None
    for count in range(2, min(most, len(points)) + 1):
        group, quality = _lloyd(points, count, generator)
        tiny = np.bincount(group).min() < _MIN_GROUP_SHARE * len(points)
        if quality > best and not tiny:
            best, kept = quality, group
    if kept is None:
        kept = _median_split(points)
    return np.unique(kept, return_inverse=True)[1]


def _median_split(points: Array) -> Ints:
    """Split points at the median of the direction of largest variance that can be split."""
    upper = np.zeros(len(points), dtype=bool)
    for direction in np.argsort(-points.var(axis=0), kind="stable"):
        along = points[:, direction]
        upper = along > np.median(along)
        if upper.any():
            break
    return upper.astype(np.int64)


def _principal_components(blocks: Mapping[str, Array]) -> GraphEmbedding:
    """Standardize and concatenate blocks, and project them on their principal components."""
    parts = {name: _standardize(block) for name, block in blocks.items()}
    points = np.concatenate(list(parts.values()), axis=1)
    if points.shape[1] > _MAX_DIMENSIONS:
        _, directions = np.linalg.eigh(points.T @ points)
        points = points @ directions[:, -_MAX_DIMENSIONS:]
    return GraphEmbedding(np.asarray(points), parts)


def _standardize(block: Array) -> Array:
    """Center a block and scale it to a total variance of 1."""
    block = block - block.mean(axis=0)
    scale = float(np.sqrt(block.var(axis=0).sum()))
    return np.asarray(block / scale if scale > 1e-9 else block)


def _feature_sums(table: GraphTable, words: tuple[Feature, ...]) -> list[Array]:
    """Return, per graph, the number of nodes per category, or the sum of each feature."""
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray):
        return []
    owner = row_indices(table.node_ptr)
    if words:
        return [
            np.bincount(
                owner * len(feature.words) + values[:, column],
                minlength=len(table) * len(feature.words),
            ).reshape(len(table), len(feature.words))
            for column, feature in enumerate(words)
        ]
    sums = [
        np.bincount(owner, weights=values[:, column], minlength=len(table))
        for column in range(values.shape[1])
    ]
    return [np.stack(sums, axis=1)]


def _lloyd(points: Array, count: int, generator: np.random.Generator) -> tuple[Ints, float]:
    """Run Lloyd's algorithm with k-means++ seeding; return groups and a silhouette of at most 1."""
    centers = points[[generator.integers(len(points))]]
    for _ in range(count - 1):
        weight = _squared_distances(points, centers).min(axis=1)
        if weight.sum() <= 0:
            break
        drawn = generator.choice(len(points), p=weight / weight.sum())
        centers = np.concatenate([centers, points[[drawn]]])
    group = _squared_distances(points, centers).argmin(axis=1)
    for _ in range(_LLOYD_ROUNDS):
        size = np.bincount(group, minlength=len(centers))
        total = np.zeros_like(centers)
        np.add.at(total, group, points)
        centers = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], centers)
        assigned = _squared_distances(points, centers).argmin(axis=1)
        if (assigned == group).all():
            break
        group = assigned
    if len(centers) < 2:
        return group, -1.0
    near = np.sqrt(np.sort(_squared_distances(points, centers), axis=1)[:, :2])
    return group, float(np.mean((near[:, 1] - near[:, 0]) / np.maximum(near[:, 1], 1e-12)))


def _squared_distances(points: Array, centers: Array) -> Array:
    """Return squared distances, ``[n, k]``."""
    square = (points**2).sum(1)[:, None] - 2 * points @ centers.T + (centers**2).sum(1)
    return np.asarray(np.maximum(square, 0))
