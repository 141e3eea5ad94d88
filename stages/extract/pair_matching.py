"""Matching the nodes of two graphs: the network, the best match in bounded memory, the partners.

The paper's similarity of two nodes is a weighted cosine; a node's match in another graph is the
most similar node there.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.ragged import Ints
from gsx.stages.nn.gin import GIN, aggregate

BLOCK_CELLS = 1 << 22
"""Node pairs compared together."""
MATCH_WIDTH = 32
"""Numbers by which nodes are compared."""


class PairNet(nn.Module):
    """Embeddings to match nodes by, and a reader that tells the target from kept nodes."""

    def __init__(
        self, features: int, outputs: int, width: int, layers: int, kinds: int = 0
    ) -> None:
        super().__init__()
        self.matcher = GIN(features, width, layers, kinds)
        self.project = nn.Linear(width, MATCH_WIDTH)
        self.weight = nn.Parameter(torch.tensor(5.0))
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.reader = GIN(features, width, layers, kinds)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, outputs))

    def embed(self, matrix: Tensor, rows: Tensor) -> Tensor:
        """Return embeddings of length 1, ``[N, width]``."""
        return functional.normalize(self.project(self.matcher(matrix, rows)[-1]), dim=1)

    def chance(self, matrix: Tensor, contrast: Tensor) -> Tensor:
        """Return the probability to keep each node, ``[N]``, by its and its neighbors' contrast."""
        around = torch.stack([contrast, torch.ones_like(contrast)], dim=1)
        total, count = (around + aggregate(matrix, around)).unbind(dim=1)
        return torch.sigmoid(self.weight * total / count + self.offset)

    def read(self, matrix: Tensor, rows: Tensor, keep: Tensor, owner: Tensor, sets: int) -> Tensor:
        """Return logits ``[sets, C]``, told from nodes with ``keep`` ``[N]`` 1, not 0."""
        state = self.reader.enter(rows) * keep[:, None]
        for layer in self.reader.layers:
            state = layer(matrix, state) * keep[:, None]
        total = torch.zeros(sets, state.shape[1], device=state.device).index_add_(0, owner, state)
        size = torch.zeros(sets, device=state.device).index_add_(0, owner, keep)[:, None]
        logits: Tensor = self.head(torch.cat([total / size.clamp_min(1), total / 10], dim=1))
        return logits


def best_match(left: Tensor, left_ptr: Ints, right: Tensor, right_ptr: Ints) -> Tensor:
    """Return the best cosine of every node of left graph ``p`` with a node of right graph ``p``.

    ``left`` ``[N, D]`` and ``right`` ``[M, D]`` hold rows of length 1; pointers are ``[P + 1]``.
    A node whose partner has no nodes gets -1.
    """
    best = []
    for start, stop in _blocks(np.diff(left_ptr), np.diff(right_ptr)):
        rows, inside = _padded(left, left_ptr[start : stop + 1])
        found = torch.full(rows.shape[:2], -1.0, device=left.device, dtype=left.dtype)
        columns, there = _padded(right, right_ptr[start : stop + 1])
        step = max(BLOCK_CELLS // max(rows.shape[0] * rows.shape[1], 1), 1)
        for first in range(0, columns.shape[1], step):
            part = slice(first, first + step)
            alike = torch.bmm(rows, columns[:, part].transpose(1, 2))
            alike = alike.masked_fill(~there[:, None, part], -1.0)
            found = torch.maximum(found, alike.max(dim=2).values)
        best.append(found[inside])
    return torch.cat(best) if best else left.new_zeros(0)


def partners(same: Ints, other: Ints, pool_same: Ints, pool_other: Ints, dice: Ints) -> Ints:
    """Return for every graph one of the pool with its ``same`` and a different ``other``, ``[G]``.

    ``dice`` ``[G]`` are large random numbers. Where the pool has no such graph, any graph with that
    ``same`` is taken, and where it has none of those, any graph.
    """
    order = np.lexsort((pool_other, pool_same))
    by_same, by_other = pool_same[order], pool_other[order]
    first, last = np.searchsorted(by_same, same), np.searchsorted(by_same, same, side="right")
    span = int(max(other.max(initial=0), pool_other.max(initial=0))) + 2
    code = by_same * span + by_other
    own_first = np.searchsorted(code, same * span + other)
    own_last = np.searchsorted(code, same * span + other, side="right")
    own = own_last - own_first
    choices = last - first - own
    lonely = choices == 0
    own = np.where(lonely, 0, own)
    choices = np.where(lonely, last - first, choices)
    first = np.where(choices == 0, 0, first)
    choices = np.where(choices == 0, len(order), choices)
    place = first + dice % choices
    chosen: Ints = order[place + np.where((own > 0) & (place >= own_first), own, 0)]
    return chosen


def _blocks(left: Ints, right: Ints) -> list[tuple[int, int]]:
    """Cut pairs into runs whose padded comparison stays within bounds; a run has one or more."""
    blocks, start, wide, tall = [], 0, 0, 0
    for pair, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        wide, tall = max(wide, a), max(tall, b)
        if pair > start and (pair + 1 - start) * wide * tall > BLOCK_CELLS:
            blocks.append((start, pair))
            start, wide, tall = pair, a, b
    if len(left):
        blocks.append((start, len(left)))
    return blocks


def _padded(rows: Tensor, ptr: Ints) -> tuple[Tensor, Tensor]:
    """Return the rows of every graph side by side, ``[P, n, D]``, and which of them are real."""
    counts = np.diff(ptr)
    places = np.arange(counts.max(initial=0))
    inside = places < counts[:, None]
    row = np.where(inside, ptr[:-1, None] + places, 0)
    taken = rows.index_select(0, torch.from_numpy(row.ravel()).to(rows.device))
    return taken.view(*row.shape, rows.shape[1]), torch.from_numpy(inside).to(rows.device)
