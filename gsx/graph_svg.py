"""Graph drawing: layout by stress majorization (SMACOF) on shortest-path lengths, and SVG."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
MAX_NODES = 150
"""Largest graph that is drawn; larger drawings are not legible."""
ROUNDS = 80
"""Iterations of stress majorization; more make no visible difference."""


def shortest_path_lengths(src: Ints, dst: Ints, num_nodes: int) -> Floats:
    """Return the length of the shortest path between all pairs of nodes, ``[N, N]``.

    Pairs without a path get the longest path length plus 2.
    """
    adjacent = np.zeros((num_nodes, num_nodes), dtype=bool)
    adjacent[src, dst] = adjacent[dst, src] = True
    distance = np.full((num_nodes, num_nodes), np.inf)
    np.fill_diagonal(distance, 0)
    reached = np.eye(num_nodes, dtype=bool)
    frontier, step = reached.copy(), 0
    while frontier.any():
        step += 1
        frontier = (frontier.astype(np.float32) @ adjacent.astype(np.float32) > 0) & ~reached
        distance[frontier] = step
        reached |= frontier
    longest = distance[np.isfinite(distance)].max(initial=0)
    return np.where(np.isfinite(distance), distance, longest + 2)


def node_positions(src: Ints, dst: Ints, num_nodes: int) -> Floats:
    """Return deterministic positions ``[N, 2]`` in the unit square.

    Classical multidimensional scaling, then stress majorization (SMACOF) with Kamada-Kawai weights
    (inverse squared distance).
    """
    if num_nodes < 2:
        return np.full((num_nodes, 2), 0.5)
    distance = shortest_path_lengths(src, dst, num_nodes)
    position = _classical_scaling(distance)
    with np.errstate(divide="ignore"):
        weight = np.where(distance > 0, distance**-2.0, 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(ROUNDS):
        difference = position[:, None] - position[None]
        length = np.sqrt((difference**2).sum(-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            guttman = np.where(length > 1e-9, -weight * distance / length, 0)
        np.fill_diagonal(guttman, 0)
        np.fill_diagonal(guttman, -guttman.sum(1))
        position = inverse @ (guttman @ position)
    return _fit_to_unit_square(position)


def _classical_scaling(distance: Floats) -> Floats:
    """Return the two principal coordinates, plus a small offset per node index.

    Without the offset, equivalent nodes such as the leaves of a star would coincide and never
    separate.
    """
    nodes = len(distance)
    centering = np.eye(nodes) - 1 / nodes
    values, vectors = np.linalg.eigh(-0.5 * centering @ distance**2 @ centering)
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(nodes)])
    plane = (vectors * signs)[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-6))
    angle = np.arange(nodes) * 2.399963  # the golden angle
    return np.asarray(plane + 0.05 * np.column_stack([np.cos(angle), np.sin(angle)]))


def _fit_to_unit_square(position: Floats) -> Floats:
    """Rotate the longest axis to the horizontal and scale the drawing to the unit square."""
    position = position - position.mean(0)
    _, _, axes = np.linalg.svd(position, full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    position = position @ (axes * signs[:, None]).T
    if position.shape[1] < 2:
        position = np.column_stack([position, np.zeros(len(position))])
    extent = np.ptp(position, axis=0).max()
    center = (position.max(0) + position.min(0)) / 2
    return np.asarray((position - center) / (extent or 1.0) + 0.5)


def graph_svg(src: Ints, dst: Ints, num_nodes: int, side: int = 150) -> str:
    """Return an SVG drawing of one graph in the current text color."""
    xy = 8 + node_positions(src, dst, num_nodes) * (side - 16)
    lines = "".join(
        f"M{xy[a, 0]:.0f} {xy[a, 1]:.0f}L{xy[b, 0]:.0f} {xy[b, 1]:.0f}"
        for a, b in zip(src.tolist(), dst.tolist(), strict=True)
        if a < b
    )
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in xy)
    dot_width = min(max(60 / (num_nodes**0.5 + 4), 3), 9)
    return (
        f'<svg viewBox="0 0 {side} {side}" width="{side}" height="{side}" fill="none" '
        f'stroke="currentColor"><path stroke-opacity="0.45" d="{lines}"/>'
        f'<path stroke-width="{dot_width:.1f}" stroke-linecap="round" d="{dots}"/></svg>'
    )
