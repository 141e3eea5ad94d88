"""The BA-Shapes graph: houses attached to a Barabási-Albert base graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints

HOUSE = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3))
"""Edges of a house: 4 is the roof, 0 and 1 are sides, 2 and 3 are feet."""
ROLES = (1, 1, 2, 2, 3)
"""Class of every node of a house; base nodes have class 0."""


@dataclass(frozen=True, slots=True, eq=False)
class BAShapes:
    """A BA-Shapes graph, each edge in one direction."""

    src: Ints
    dst: Ints
    role: Ints
    """``[N]`` class of every node."""


def barabasi_albert_graph(nodes: int, links: int, stream: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the edges of a Barabási-Albert graph with preferential attachment.

    As in the benchmark, targets are drawn with replacement and may be the new node itself.
    Self-loops are removed, so a node may have fewer than ``links`` edges.
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


def ba_shapes_graph(base: int, links: int, count: int, stream: np.random.Generator) -> BAShapes:
    """Return ``count`` houses, each attached by one edge to a distinct base node."""
    src, dst = barabasi_albert_graph(base, links, stream)
    anchors = stream.permutation(base)[:count]
    first = base + len(ROLES) * np.arange(count)
    house = np.array(HOUSE)
    return BAShapes(
        src=np.concatenate([src, (first[:, None] + house[:, 0]).ravel(), anchors]),
        dst=np.concatenate([dst, (first[:, None] + house[:, 1]).ravel(), first]),
        role=np.concatenate([np.zeros(base, dtype=np.int64), np.tile(ROLES, count)]),
    )
