"""Convert images to graphs of superpixels (SLIC); the only module that imports scikit-image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from skimage.segmentation import slic

from gsx.ragged import Array, Ints

NUM_SUPERPIXELS = 75
"""Superpixels per image."""
NUM_NEIGHBORS = 16
"""Nearest superpixels to which each superpixel is joined."""
_COMPACTNESS = 0.3
_HIGH_COMPACTNESS = 1.0
"""Compactness that gives superpixels of nearly equal size for every image."""


def superpixels(image: Array, count: int = NUM_SUPERPIXELS) -> tuple[Array, Array]:
    """Return the mean intensity ``[count]`` and the center ``[count, 2]`` of the superpixels.

    ``image`` is ``[H, W]`` in 0..1; a center is column and row. SLIC returns approximately the
    requested number of segments; the smallest segment is merged into the neighbor with the most
    similar intensity until ``count`` remain.
    """
    labels = _segments(image, _COMPACTNESS)
    if labels.max() + 1 < count:
        labels = _segments(image, _HIGH_COMPACTNESS)
    flat = labels.reshape(-1)
    total = int(flat.max()) + 1
    size = np.bincount(flat, minlength=total).astype(np.float64)
    rows, columns = np.indices(image.shape)
    sums = np.stack(
        [np.bincount(flat, weights=channel.reshape(-1), minlength=total)
         for channel in (image, columns, rows)],
        axis=1,
    )  # fmt: skip
    adjacent = _adjacency(labels, total)
    for _ in range(total - count):
        smallest = int(np.argmin(np.where(size > 0, size, np.inf)))
        intensity = np.divide(sums[:, 0], size, out=np.zeros(total), where=size > 0)
        difference = np.where(
            adjacent[smallest] & (size > 0), np.abs(intensity - intensity[smallest]), np.inf
        )
        target = int(np.argmin(difference))
        size[target] += size[smallest]
        sums[target] += sums[smallest]
        size[smallest] = 0
        adjacent[target] |= adjacent[smallest]
        adjacent[:, target] |= adjacent[:, smallest]
        adjacent[target, target] = False
    kept = size > 0
    means = sums[kept] / size[kept, None]
    return means[:, 0].astype(np.float32), means[:, 1:].astype(np.float32)


def superpixels_of_block(block: Mapping[str, Array]) -> dict[str, Array]:
    """Return the superpixels and edges of a block with ``images`` ``[B, H, W]`` uint8."""
    results = [superpixels(image / 255.0) for image in block["images"]]
    center = np.stack([center for _, center in results])
    counts, src, dst = nearest_edges(center)
    return {
        "intensity": np.stack([intensity for intensity, _ in results]),
        "center": center,
        "num_edges": counts,
        "edge_src": src,
        "edge_dst": dst,
    }


def nearest_edges(center: Array, neighbors: int = NUM_NEIGHBORS) -> tuple[Ints, Array, Array]:
    """Join every superpixel to its nearest ones; return edges per image, sources and targets.

    ``center`` is ``[B, n, 2]``. Edges are sorted and in both directions.
    """
    images, nodes, _ = center.shape
    distance = ((center[:, :, None] - center[:, None]) ** 2).sum(axis=-1)
    distance[:, np.arange(nodes), np.arange(nodes)] = np.inf
    nearest = np.argsort(distance, axis=-1, kind="stable")[..., :neighbors]
    joined = np.zeros((images, nodes, nodes), dtype=bool)
    np.put_along_axis(joined, nearest, values=True, axis=-1)
    joined |= joined.transpose(0, 2, 1)
    _, src, dst = np.nonzero(joined)
    return joined.sum(axis=(1, 2)), src.astype(np.int32), dst.astype(np.int32)


def _segments(image: Array, compactness: float) -> Array:
    labels = slic(
        image, n_segments=NUM_SUPERPIXELS, compactness=compactness, channel_axis=None,
        start_label=0, min_size_factor=0.1,
    )  # fmt: skip
    return np.unique(labels, return_inverse=True)[1].reshape(image.shape)


def _adjacency(labels: Array, total: int) -> Array:
    """Return whether two segments share a border, ``[total, total]``."""
    adjacent = np.zeros((total, total), dtype=bool)
    for one, other in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1])):
        adjacent[one.reshape(-1), other.reshape(-1)] = True
    adjacent |= adjacent.T
    adjacent[np.arange(total), np.arange(total)] = False
    return adjacent
