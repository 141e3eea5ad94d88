"""Draw node pairs between components, in proportion to their odds under a bridge model.

The logit of a pair is a signed inner product of the terms of both nodes. Logits of a pair of
components are computed, used and forgotten, so memory does not grow with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gsx._native import load_extension
from gsx.ragged import Array, Ints
from gsx.stages.graphs.subgraphs import Bools

native = load_extension("gsx.stages.nn._pair_sampling")

MAX_LOGIT = np.float32(30)
"""Bound of logits before they become odds."""
GROUP = 8
"""Pairs that are added together; right nodes are padded to a multiple of it."""
BLOCK_PAIRS = 65_536
"""Node pairs that the NumPy version processes at once."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeRuns:
    """Runs of nodes on both sides of P attachments: first node and number of nodes."""

    left: Ints
    left_count: Ints
    right: Ints
    right_count: Ints

    def take(self, rows: Ints) -> NodeRuns:
        """Return some of the attachments."""
        return NodeRuns(
            self.left[rows], self.left_count[rows], self.right[rows], self.right_count[rows]
        )


def draw_pairs(
    terms: Array,
    runs: NodeRuns,
    wanted: Ints,
    most: int,
    uniform: Array,
    free: tuple[Bools, Ints, Ints] | None = None,
) -> tuple[Ints, Ints]:
    """Draw distinct node pairs of every attachment, in proportion to their odds.

    Args:
        terms: ``[N, K + 1]`` float32 factors of every node, then its logit of being an end.
        runs: Nodes of the attachments, as rows of ``terms``.
        wanted: ``[P]`` number of pairs of every attachment; 0 is the expected number under the
            probabilities of the pairs, rounded, between 1 and ``most``.
        most: Largest expected number.
        uniform: ``[P, D]`` random numbers; no attachment gets more than D pairs.
        free: Mask of nodes that may be drawn, and the first left and right node of every
            attachment in it; None allows all.

    Returns:
        The attachment of every pair, and the pair: left node times right nodes plus right node,
        each counted from 0 in its run. Sorted by both.
    """
    drawn = np.full(uniform.shape, -1, dtype=np.int64)
    if native is not None:
        mask, left_free, right_free = free or (np.zeros(0, dtype=bool), runs.left, runs.right)
        columns = (runs.left, runs.left_count, runs.right, runs.right_count)
        starts = (np.ascontiguousarray(column, dtype=np.int64) for column in columns)
        native.draw_pairs(
            terms, terms.shape[1] - 1, *starts, mask, left_free, right_free, wanted, most, uniform,
            drawn,
        )  # fmt: skip
    else:
        for rows in _blocks(runs):
            drawn[rows] = _draw_block(terms, runs, wanted, most, uniform, free, rows)
    attachment, place = np.nonzero(drawn >= 0)
    return attachment, drawn[attachment, place]


def _blocks(runs: NodeRuns) -> Iterator[Ints]:
    """Yield attachments, sorted by size, in blocks whose padded pairs fit into the cache."""
    order = np.lexsort((runs.left_count, runs.right_count))
    start = 0
    while start < len(order):
        ahead = order[start : start + 512]
        pairs = np.maximum.accumulate(runs.left_count[ahead]) * runs.right_count[ahead]
        fitting = int((pairs * np.arange(1, len(ahead) + 1) <= BLOCK_PAIRS).sum())
        yield ahead[: max(fitting, 1)]
        start += max(fitting, 1)


def _draw_block(
    terms: Array,
    runs: NodeRuns,
    wanted: Ints,
    most: int,
    uniform: Array,
    free: tuple[Bools, Ints, Ints] | None,
    rows: Ints,
) -> Ints:
    """Draw the pairs of some attachments with NumPy, with the operations of the compiled loop."""
    block = runs.take(rows)
    left, is_left = _padded(block.left, block.left_count)
    right, is_right = _padded(block.right, block.right_count, GROUP)
    is_pair = is_left[:, :, None] & is_right[:, None, :]
    odds = np.where(is_pair, _odds(terms, left, right), np.float32(0))
    shape = (len(rows), odds.shape[1] * odds.shape[2])
    probability = (odds / (np.float32(1) + odds)).reshape(shape)
    number = (_group_sums(probability).cumsum(axis=1)[:, -1] + 0.5).astype(np.int64)
    number = np.where(wanted[rows] > 0, wanted[rows], np.clip(number, 1, most))
    if free is not None:
        mask, left_free, right_free = free
        for starts, counts, axis, group in (
            (left_free[rows], block.left_count, 2, 1),
            (right_free[rows], block.right_count, 1, GROUP),
        ):
            nodes, _ = _padded(starts, counts, group)
            odds = odds * np.expand_dims(mask[np.minimum(nodes, len(mask) - 1)], axis)
    flat = odds.reshape(shape)
    drawn = np.full((len(rows), uniform.shape[1]), -1, dtype=np.int64)
    for draw in range(min(int(number.max(initial=0)), uniform.shape[1])):
        active = np.flatnonzero((number > draw) & (flat > 0).any(axis=1))
        pair = _draw_one(flat[active], uniform[rows[active], draw])
        flat[active, pair] = 0
        row, column = np.divmod(pair, odds.shape[2])
        drawn[active, draw] = row * block.right_count[active] + column
    drawn[drawn < 0] = np.iinfo(np.int64).max
    drawn.sort(axis=1)
    return np.where(drawn == np.iinfo(np.int64).max, -1, drawn)


def _odds(terms: Array, left: Ints, right: Ints) -> Array:
    """Return the odds of all pairs of left and right nodes, ``[B, L, R]``.

    ``left`` ``[B, L]`` and ``right`` ``[B, R]`` are rows of ``terms``.
    """
    width = terms.shape[1] - 1
    own, other = terms[left], terms[right]
    logits = own[:, :, None, width] + other[:, None, :, width]
    for k in range(width):
        factor = own[:, :, k] if k < width // 2 else -own[:, :, k]
        logits += factor[:, :, None] * other[:, None, :, k]
    return exponential(np.minimum(np.where(logits > -MAX_LOGIT, logits, -MAX_LOGIT), MAX_LOGIT))


def exponential(x: Array) -> Array:
    """Return exp(x) of float32 values in [-30, 30], with the same bits on every processor."""
    one = np.float32
    n = (x * one(1.44269504088896341) + one(64.5)).astype(np.int32) - np.int32(64)
    r = x - n.astype(np.float32) * one(0.693359375) - n.astype(np.float32) * one(-2.12194440e-4)
    y = np.full_like(x, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                        5.0000001201e-1):  # fmt: skip
        y = y * r + one(coefficient)
    y = y * (r * r) + r + one(1)
    return np.asarray(y * ((n + np.int32(127)) << np.int32(23)).view(np.float32))


def _draw_one(odds: Array, uniform: Array) -> Ints:
    """Draw one pair of every row of odds ``[B, P]``; no row is all zeros."""
    sums = _group_sums(odds)
    total = sums.cumsum(axis=1)
    mark = uniform * total[:, -1]
    last = sums.shape[1] - 1 - (sums > 0)[:, ::-1].argmax(axis=1)
    beyond = total > mark[:, None]
    group = np.where(beyond.any(axis=1), np.minimum(beyond.argmax(axis=1), last), last)
    row = np.arange(len(odds))
    before = np.where(group > 0, total[row, group - 1], 0.0)
    inside = odds.reshape(len(odds), odds.shape[1] // GROUP, GROUP)[row, group]
    running = np.column_stack([before, inside]).cumsum(axis=1)[:, 1:]
    possible = inside > 0
    beyond = (running > mark[:, None]) & possible
    final = GROUP - 1 - possible[:, ::-1].argmax(axis=1)
    place = np.where(beyond.any(axis=1), beyond.argmax(axis=1), final)
    return np.asarray(group * GROUP + place, dtype=np.int64)


def _group_sums(values: Array) -> Array:
    """Return the sums of groups of each row in float64, in the order of the compiled loop."""
    v = values.astype(np.float64).reshape(len(values), values.shape[1] // GROUP, GROUP)
    even = (v[..., 0] + v[..., 4]) + (v[..., 2] + v[..., 6])
    return np.asarray(even + ((v[..., 1] + v[..., 5]) + (v[..., 3] + v[..., 7])))


def _padded(start: Ints, count: Ints, group: int = 1) -> tuple[Ints, Bools]:
    """Return consecutive numbers ``[B, longest]``, and a mask that excludes the padding.

    The longest run is rounded up to a multiple of ``group``.
    """
    longest = -(-int(count.max(initial=1)) // group) * group
    step = np.arange(longest)
    is_real = step < count[:, None]
    return np.where(is_real, start[:, None] + step, start[:, None]), is_real
