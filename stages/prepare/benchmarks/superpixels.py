"""Images as graphs of superpixels: the only code that calls scikit-image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from skimage.segmentation import slic

from gsx.ragged import Array, Ints

NODES = 75
"""Superpixels of an image."""
NEIGHBORS = 16
_COMPACTNESS = 0.3
_EVEN = 1.0
"""A compactness that makes superpixels of about one size, whatever the image shows."""


def superpixels(image: Array, count: int = NODES) -> tuple[Array, Array]:
    """Return the mean intensity ``[count]`` and the center ``[count, 2]`` of the superpixels.

    ``image`` is ``[H, W]`` in 0..1; a center is column and row. SLIC makes about as many segments
    as it is asked for; the smallest is merged into the neighbor of the nearest intensity until
    there are ``count``.
    """
    labels = _segments(image, _COMPACTNESS)
    if labels.max() + 1 < count:
        labels = _segments(image, _EVEN)
    flat = labels.reshape(-1)
    total = int(flat.max()) + 1
    size = np.bincount(flat, minlength=total).astype(np.float64)
    rows, columns = np.indices(image.shape)
    sums = np.stack(
        [np.bincount(flat, weights=each.reshape(-1), minlength=total)
         for each in (image, columns, rows)],
        axis=1,
    )  # fmt: skip
    touch = _touching(labels, total)
    for _ in range(total - count):
        least = int(np.argmin(np.where(size > 0, size, np.inf)))
        level = np.divide(sums[:, 0], size, out=np.zeros(total), where=size > 0)
        gap = np.where(touch[least] & (size > 0), np.abs(level - level[least]), np.inf)
        into = int(np.argmin(gap))
        size[into] += size[least]
        sums[into] += sums[least]
        size[least] = 0
        touch[into] |= touch[least]
        touch[:, into] |= touch[:, least]
        touch[into, into] = False
    kept = size > 0
    means = sums[kept] / size[kept, None]
    return means[:, 0].astype(np.float32), means[:, 1:].astype(np.float32)


def superpixels_of_block(block: Mapping[str, Array]) -> dict[str, Array]:
    """Return the superpixels and edges of a block with ``images`` ``[B, H, W]`` uint8."""
    found = [superpixels(image / 255.0) for image in block["images"]]
    center = np.stack([center for _, center in found])
    counts, src, dst = nearest_edges(center)
    return {
        "intensity": np.stack([intensity for intensity, _ in found]),
        "center": center,
        "num_edges": counts,
        "edge_src": src,
        "edge_dst": dst,
    }


def nearest_edges(center: Array, neighbors: int = NEIGHBORS) -> tuple[Ints, Array, Array]:
    """Join every superpixel to its nearest ones; returns edges per image, sources and targets.

    ``center`` is ``[B, n, 2]``. Edges stand in both directions and are sorted.
    """
    images, nodes, _ = center.shape
    apart = ((center[:, :, None] - center[:, None]) ** 2).sum(axis=-1)
    apart[:, np.arange(nodes), np.arange(nodes)] = np.inf
    near = np.argsort(apart, axis=-1, kind="stable")[..., :neighbors]
    joined = np.zeros((images, nodes, nodes), dtype=bool)
    np.put_along_axis(joined, near, values=True, axis=-1)
    joined |= joined.transpose(0, 2, 1)
    _, src, dst = np.nonzero(joined)
    return joined.sum(axis=(1, 2)), src.astype(np.int32), dst.astype(np.int32)


def _segments(image: Array, compactness: float) -> Array:
    labels = slic(
        image, n_segments=NODES, compactness=compactness, channel_axis=None, start_label=0,
        min_size_factor=0.1,
    )  # fmt: skip
    return np.unique(labels, return_inverse=True)[1].reshape(image.shape)


def _touching(labels: Array, total: int) -> Array:
    """Return which segments share a border, ``[total, total]``."""
    touch = np.zeros((total, total), dtype=bool)
    for one, other in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1])):
        touch[one.reshape(-1), other.reshape(-1)] = True
    touch |= touch.T
    touch[np.arange(total), np.arange(total)] = False
    return touch
