"""Groups of graphs that look alike, for data that comes without environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, rows_of
from gsx.schema import Feature
from gsx.table import GraphTable

MOST = 8
"""Groups that are tried at most."""
_ROUNDS = 50
_SMALLEST = 0.05
"""Share of the points that a group has at least."""
_WIDTH = 16
"""Directions of largest spread that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """What items look like."""

    points: Array
    """``[n, D]``"""
    parts: Mapping[str, Array]
    """What the points are made of, ``[n, k]`` around 0, by name."""

    def told_apart(self, group: Ints) -> dict[str, float]:
        """Return the share of the spread of each part that lies between groups, the most first."""
        count = np.maximum(np.bincount(group), 1)[:, None]
        found = {}
        for name, values in self.parts.items():
            total = np.zeros((len(count), values.shape[1]))
            np.add.at(total, group, values)
            spread = float((values**2).sum())
            found[name] = float((total**2 / count).sum()) / spread if spread > 0 else 0.0
        return dict(sorted(found.items(), key=lambda each: -each[1]))


def embed_graphs(table: GraphTable, words: tuple[Feature, ...]) -> Looks:
    """Return a few numbers per graph: size, density, and what its nodes are.

    Features that have ``words`` count by the share of the nodes that has each, others by their
    mean. Size, density and each feature with words have a spread of 1 as a whole, so that a rare
    word weighs little.
    """
    nodes = np.maximum(table.num_nodes, 1)
    names = [each.name for each in words] or ["features"]
    sums = zip(names, _sums(table, words), strict=False)  # there are none of sparse features
    return _reduced(
        {
            "size": np.log(nodes)[:, None],
            "density": (table.num_edges / nodes)[:, None],
            **{name: each / nodes[:, None] for name, each in sums},
        }
    )


def embed_nodes(features: Array, degree: Ints) -> Looks:
    """Return a few numbers per node, of its features ``[N, F]`` and its degree.

    The degree and the features as a whole have a spread of 1 each.
    """
    return _reduced(
        {
            "degree": np.log1p(degree)[:, None],
            "features": np.asarray(features, dtype=np.float64),
        }
    )


def cluster(points: Array, generator: np.random.Generator, most: int = MOST) -> Ints:
    """Return the group of every point ``[n]``, from 0; how many groups, the points decide.

    Each number of groups from 2 to ``most`` is tried with Lloyd's rounds, and the one whose points
    lie closest to their own center, against the next one, is kept, if no group is tiny. Where all
    tries have a tiny group, the points are cut in half along their largest spread. Points that are
    all the same are one group.
    """
    if not len(points) or not points.shape[1] or not (points != points[0]).any():
        return np.zeros(len(points), dtype=np.int64)
    best, kept = -np.inf, None
    for count in range(2, min(most, len(points)) + 1):
        group, quality = _lloyd(points, count, generator)
        tiny = np.bincount(group).min() < _SMALLEST * len(points)
        if quality > best and not tiny:
            best, kept = quality, group
    if kept is None:
        kept = _halves(points)
    return np.unique(kept, return_inverse=True)[1]


def _halves(points: Array) -> Ints:
    """Cut points in two at the median of the direction of largest spread that can be cut there."""
    upper = np.zeros(len(points), dtype=bool)
    for direction in np.argsort(-points.var(axis=0), kind="stable"):
        along = points[:, direction]
        upper = along > np.median(along)
        if upper.any():
            break
    return upper.astype(np.int64)


def _reduced(blocks: Mapping[str, Array]) -> Looks:
    """Return scaled blocks side by side, along the directions in which they spread most."""
    parts = {name: _scaled(each) for name, each in blocks.items()}
    found = np.concatenate(list(parts.values()), axis=1)
    if found.shape[1] > _WIDTH:
        _, directions = np.linalg.eigh(found.T @ found)
        found = found @ directions[:, -_WIDTH:]
    return Looks(np.asarray(found), parts)


def _scaled(block: Array) -> Array:
    """Return a block around 0 with a total spread of 1."""
    block = block - block.mean(axis=0)
    spread = float(np.sqrt(block.var(axis=0).sum()))
    return np.asarray(block / spread if spread > 1e-9 else block)


def _sums(table: GraphTable, words: tuple[Feature, ...]) -> list[Array]:
    """Return, per graph, how many nodes have each word, or the sum of each feature."""
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray):
        return []
    owner = rows_of(table.node_ptr)
    if words:
        return [
            np.bincount(
                owner * len(each.words) + values[:, place],
                minlength=len(table) * len(each.words),
            ).reshape(len(table), len(each.words))
            for place, each in enumerate(words)
        ]
    sums = [
        np.bincount(owner, weights=values[:, place], minlength=len(table))
        for place in range(values.shape[1])
    ]
    return [np.stack(sums, axis=1)]


def _lloyd(points: Array, count: int, generator: np.random.Generator) -> tuple[Ints, float]:
    """Return groups around ``count`` centers, and how well they part the points (at most 1)."""
    centers = points[[generator.integers(len(points))]]
    for _ in range(count - 1):
        weight = _distances(points, centers).min(axis=1)
        if weight.sum() <= 0:
            break
        drawn = generator.choice(len(points), p=weight / weight.sum())
        centers = np.concatenate([centers, points[[drawn]]])
    group = _distances(points, centers).argmin(axis=1)
    for _ in range(_ROUNDS):
        size = np.bincount(group, minlength=len(centers))
        total = np.zeros_like(centers)
        np.add.at(total, group, points)
        centers = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], centers)
        moved = _distances(points, centers).argmin(axis=1)
        if (moved == group).all():
            break
        group = moved
    if len(centers) < 2:
        return group, -1.0
    near = np.sqrt(np.sort(_distances(points, centers), axis=1)[:, :2])
    return group, float(np.mean((near[:, 1] - near[:, 0]) / np.maximum(near[:, 1], 1e-12)))


def _distances(points: Array, centers: Array) -> Array:
    """Return squared distances, ``[n, k]``."""
    square = (points**2).sum(1)[:, None] - 2 * points @ centers.T + (centers**2).sum(1)
    return np.asarray(np.maximum(square, 0))
