"""Houses on a scale-free base: the graph whose nodes are labelled by their place in a house."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints

HOUSE = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3))
"""Edges of a house: 0 and 1 carry the roof 4 and stand on 3 and 2."""
ROLES = (1, 1, 2, 2, 3)
"""Class of every node of a house; nodes of the base are of class 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Houses:
    """A base with houses, every edge in one direction."""

    src: Ints
    dst: Ints
    role: Ints
    """``[N]`` class of every node."""


def preferential(nodes: int, links: int, stream: np.random.Generator) -> tuple[Ints, Ints]:
    """Return a graph in which every new node links to old ones in proportion to their degrees.

    After Barabási and Albert, as the benchmark draws it: ends are drawn with replacement, and from
    the new node's own ends too. Those links are lost, so a node may have fewer than ``links``.
    """
    ends = np.empty(2 * links * (nodes - links + 1), dtype=np.int64)
    ends[:links], ends[links : 2 * links] = np.arange(links), stream.permutation(links)
    filled = 2 * links
    for node in range(links, nodes):
        ends[filled : filled + links] = node
        chosen = ends[stream.integers(0, filled + links, links)]
        ends[filled + links : filled + 2 * links] = chosen
        filled += 2 * links
    pairs = ends.reshape(-1, 2, links)
    src, dst = pairs[:, 0].ravel(), pairs[:, 1].ravel()
    kept = src != dst
    return src[kept], dst[kept]


def houses(base: int, links: int, count: int, stream: np.random.Generator) -> Houses:
    """Return ``count`` houses, each joined by one edge to a base node of its own."""
    src, dst = preferential(base, links, stream)
    anchors = stream.permutation(base)[:count]
    first = base + len(ROLES) * np.arange(count)
    house = np.array(HOUSE)
    return Houses(
        src=np.concatenate([src, (first[:, None] + house[:, 0]).ravel(), anchors]),
        dst=np.concatenate([dst, (first[:, None] + house[:, 1]).ravel(), first]),
        role=np.concatenate([np.zeros(base, dtype=np.int64), np.tile(ROLES, count)]),
    )
