"""Drawings of graphs: places whose distances on paper follow distances in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
LARGEST = 150
"""Nodes of a graph that is worth drawing; of more an eye makes nothing."""
ROUNDS = 80
"""Steps of stress majorization; more change nothing an eye could see."""


def hop_distances(src: Ints, dst: Ints, num_nodes: int) -> Floats:
    """Return edges on the shortest way between every two nodes, ``[N, N]``.

    Nodes that no way joins are put two steps further apart than the longest way there is.
    """
    near = np.zeros((num_nodes, num_nodes), dtype=bool)
    near[src, dst] = near[dst, src] = True
    far = np.full((num_nodes, num_nodes), np.inf)
    np.fill_diagonal(far, 0)
    reached = np.eye(num_nodes, dtype=bool)
    front, step = reached.copy(), 0
    while front.any():
        step += 1
        front = (front.astype(np.float32) @ near.astype(np.float32) > 0) & ~reached
        far[front] = step
        reached |= front
    longest = far[np.isfinite(far)].max(initial=0)
    return np.where(np.isfinite(far), far, longest + 2)


def places(src: Ints, dst: Ints, num_nodes: int) -> Floats:
    """Return ``[N, 2]`` places in the unit square, the same for the same graph.

    Classical scaling first, then stress majorization (SMACOF) with weights of one over distance
    squared, as Kamada and Kawai weigh springs.
    """
    if num_nodes < 2:
        return np.full((num_nodes, 2), 0.5)
    far = hop_distances(src, dst, num_nodes)
    at = _scaled(far)
    with np.errstate(divide="ignore"):
        weight = np.where(far > 0, far**-2.0, 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(ROUNDS):
        apart = at[:, None] - at[None]
        length = np.sqrt((apart**2).sum(-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(length > 1e-9, -weight * far / length, 0)
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(1))
        at = inverse @ (pull @ at)
    return _fitted(at)


def _scaled(far: Floats) -> Floats:
    """Return the plane that holds most of the distances; ties are broken by the number of a node.

    Nodes that are alike (twins, leaves of one star) would fall on one point and never part.
    """
    nodes = len(far)
    middle = np.eye(nodes) - 1 / nodes
    values, vectors = np.linalg.eigh(-0.5 * middle @ far**2 @ middle)
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(nodes)])
    plane = (vectors * signs)[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-6))
    turn = np.arange(nodes) * 2.399963  # the golden angle
    return np.asarray(plane + 0.05 * np.column_stack([np.cos(turn), np.sin(turn)]))


def _fitted(at: Floats) -> Floats:
    """Turn the drawing so that it is wide rather than high, and fit it into the unit square."""
    at = at - at.mean(0)
    _, _, axes = np.linalg.svd(at, full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    at = at @ (axes * signs[:, None]).T
    if at.shape[1] < 2:
        at = np.column_stack([at, np.zeros(len(at))])
    reach = np.ptp(at, axis=0).max()
    middle = (at.max(0) + at.min(0)) / 2
    return np.asarray((at - middle) / (reach or 1.0) + 0.5)


def graph_svg(src: Ints, dst: Ints, num_nodes: int, side: int = 150) -> str:
    """Draw one graph in the color of the text around it."""
    at = 8 + places(src, dst, num_nodes) * (side - 16)
    lines = "".join(
        f"M{at[a, 0]:.0f} {at[a, 1]:.0f}L{at[b, 0]:.0f} {at[b, 1]:.0f}"
        for a, b in zip(src.tolist(), dst.tolist(), strict=True)
        if a < b
    )
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in at)
    wide = min(max(60 / (num_nodes**0.5 + 4), 3), 9)
    return (
        f'<svg viewBox="0 0 {side} {side}" width="{side}" height="{side}" fill="none" '
        f'stroke="currentColor"><path stroke-opacity="0.45" d="{lines}"/>'
        f'<path stroke-width="{wide:.1f}" stroke-linecap="round" d="{dots}"/></svg>'
    )
