"""Node matching of the pair extractor: network, best match in bounded memory, partner graphs.

The paper's similarity of two nodes is a weighted cosine. The match of a node in another graph is
the most similar node of that graph.

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gsx.ragged import Ints
from gsx.stages.nn.gin import GIN, sum_neighbors

BLOCK_CELLS = 1 << 22
"""Node pairs that are compared at once."""
MATCH_WIDTH = 32
"""Width of the embeddings that nodes are matched by."""


class PairNetwork(nn.Module):
    """Node embeddings for matching, and a classifier of the target from kept nodes."""

    def __init__(
        self, features: int, outputs: int, width: int, layers: int, num_categories: int = 0
    ) -> None:
        super().__init__()
        self.matcher = GIN(features, width, layers, num_categories)
        self.project = nn.Linear(width, MATCH_WIDTH)
        self.weight = nn.Parameter(torch.tensor(5.0))
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.reader = GIN(features, width, layers, num_categories)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, outputs))

    def embed(self, matrix: Tensor, rows: Tensor) -> Tensor:
        """Return embeddings of unit length, ``[N, MATCH_WIDTH]``."""
        return functional.normalize(self.project(self.matcher(matrix, rows)[-1]), dim=1)

    def keep_probability(self, matrix: Tensor, contrast: Tensor) -> Tensor:
        """Return the probability to keep each node ``[N]``.

        It depends on the mean contrast ``[N]`` of the node and its neighbors.
        """
        stacked = torch.stack([contrast, torch.ones_like(contrast)], dim=1)
        total, count = (stacked + sum_neighbors(matrix, stacked)).unbind(dim=1)
        return torch.sigmoid(self.weight * total / count + self.offset)

    def classify(
        self, matrix: Tensor, rows: Tensor, keep: Tensor, owner: Tensor, num_sets: int
    ) -> Tensor:
        """Return logits ``[num_sets, C]`` of the target from nodes with ``keep`` ``[N]`` 1."""
        state = self.reader.enter(rows) * keep[:, None]
        for layer in self.reader.layers:
            state = layer(matrix, state) * keep[:, None]
        total = torch.zeros(num_sets, state.shape[1], device=state.device)
        total = total.index_add_(0, owner, state)
        size = torch.zeros(num_sets, device=state.device).index_add_(0, owner, keep)[:, None]
        logits: Tensor = self.head(torch.cat([total / size.clamp_min(1), total / 10], dim=1))
        return logits


def best_match(left: Tensor, left_ptr: Ints, right: Tensor, right_ptr: Ints) -> Tensor:
    """Return the largest cosine of every node of left graph ``p`` with a node of right graph ``p``.

    ``left`` ``[N, D]`` and ``right`` ``[M, D]`` hold rows of unit length; pointers are ``[P + 1]``.
    Nodes whose right graph is empty get -1.
    """
    matches = []
    for start, stop in _blocks(np.diff(left_ptr), np.diff(right_ptr)):
        rows, is_row = _padded(left, left_ptr[start : stop + 1])
        best = torch.full(rows.shape[:2], -1.0, device=left.device, dtype=left.dtype)
        columns, is_column = _padded(right, right_ptr[start : stop + 1])
        step = max(BLOCK_CELLS // max(rows.shape[0] * rows.shape[1], 1), 1)
        for first in range(0, columns.shape[1], step):
            block = slice(first, first + step)
            cosine = torch.bmm(rows, columns[:, block].transpose(1, 2))
            cosine = cosine.masked_fill(~is_column[:, None, block], -1.0)
            best = torch.maximum(best, cosine.max(dim=2).values)
        matches.append(best[is_row])
    return torch.cat(matches) if matches else left.new_zeros(0)


def draw_partners(same: Ints, other: Ints, pool_same: Ints, pool_other: Ints, random: Ints) -> Ints:
    """Return for every graph a pool graph with equal ``same`` and different ``other``, ``[G]``.

    ``random`` ``[G]`` are large random integers. Without such a graph in the pool, any graph with
    equal ``same`` is drawn; without one of those, any graph.
    """
    order = np.lexsort((pool_other, pool_same))
    sorted_same, sorted_other = pool_same[order], pool_other[order]
    first = np.searchsorted(sorted_same, same)
    last = np.searchsorted(sorted_same, same, side="right")
    span = int(max(other.max(initial=0), pool_other.max(initial=0))) + 2
    code = sorted_same * span + sorted_other
    # Graphs that agree in both variables form one run, which is skipped.
    excluded_first = np.searchsorted(code, same * span + other)
    excluded_last = np.searchsorted(code, same * span + other, side="right")
    num_excluded = excluded_last - excluded_first
    num_choices = last - first - num_excluded
    has_no_choice = num_choices == 0
    num_excluded = np.where(has_no_choice, 0, num_excluded)
    num_choices = np.where(has_no_choice, last - first, num_choices)
    first = np.where(num_choices == 0, 0, first)
    num_choices = np.where(num_choices == 0, len(order), num_choices)
    position = first + random % num_choices
    skip = (num_excluded > 0) & (position >= excluded_first)
    chosen: Ints = order[position + np.where(skip, num_excluded, 0)]
    return chosen


def _blocks(left: Ints, right: Ints) -> list[tuple[int, int]]:
    """Return runs of pairs with at most ``BLOCK_CELLS`` cells after padding, or a single pair."""
    blocks, start, max_left, max_right = [], 0, 0, 0
    for pair, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        max_left, max_right = max(max_left, a), max(max_right, b)
        if pair > start and (pair + 1 - start) * max_left * max_right > BLOCK_CELLS:
            blocks.append((start, pair))
            start, max_left, max_right = pair, a, b
    if len(left):
        blocks.append((start, len(left)))
    return blocks


def _padded(rows: Tensor, ptr: Ints) -> tuple[Tensor, Tensor]:
    """Return the rows of every graph, padded to ``[P, n, D]``, and a mask of the real rows."""
    counts = np.diff(ptr)
    offsets = np.arange(counts.max(initial=0))
    is_row = offsets < counts[:, None]
    index = np.where(is_row, ptr[:-1, None] + offsets, 0)
    taken = rows.index_select(0, torch.from_numpy(index.ravel()).to(rows.device))
    return taken.view(*index.shape, rows.shape[1]), torch.from_numpy(is_row).to(rows.device)
