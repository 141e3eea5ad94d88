"""Sampling without replacement in many groups at once, with weights or uniformly."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, pointers

ROUNDS = 32
"""Rounds of redrawing duplicates before the most likely remaining items are taken."""


def sample_without_replacement(
    odds: Array, ptr: Ints, wanted: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw ``wanted[g]`` distinct items of every group, with weights ``odds[ptr[g]:ptr[g + 1]]``.

    Sequential sampling without replacement equals sampling with replacement and keeping first
    occurrences. A group with fewer items of positive weight returns all of them. Returns the group
    and the item of every draw, sorted by both.
    """
    weight = np.concatenate([[0.0], np.cumsum(odds, dtype=np.float64)])
    low, high = weight[ptr[:-1]], weight[ptr[1:]]
    possible = pointers(odds > 0)
    wanted = np.minimum(wanted, possible[ptr[1:]] - possible[ptr[:-1]])
    group, item = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for _ in range(ROUNDS):
        missing = wanted - np.bincount(group, minlength=len(wanted))
        again = np.repeat(np.arange(len(wanted)), missing)
        if not len(again):
            break
        mark = low[again] + stream.random(len(again)) * (high - low)[again]
        drawn = np.searchsorted(weight, mark, side="right") - 1
        drawn = np.clip(drawn, ptr[again], ptr[again + 1] - 1)
        real = odds[drawn] > 0
        group = np.concatenate([group, again[real]])
        item, first = np.unique(np.concatenate([item, drawn[real]]), return_index=True)
        group = group[first]
    missing = wanted - np.bincount(group, minlength=len(wanted))
    for slow in np.flatnonzero(missing):
        rest = np.setdiff1d(np.arange(ptr[slow], ptr[slow + 1]), item)
        best = rest[np.argsort(-odds[rest], kind="stable")[: missing[slow]]]
        item = np.concatenate([item, best])
        group = np.concatenate([group, np.full(len(best), slow)])
    order = np.argsort(item, kind="stable")
    return group[order], item[order]


def sample_uniformly(sizes: Ints, wanted: Ints, stream: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw ``wanted[g]`` distinct numbers below ``sizes[g]`` for every group, by Floyd's algorithm.

    ``wanted`` must not exceed ``sizes``. Returns the group and the number of every draw, sorted by
    both. Time and memory do not depend on the sizes.
    """
    drawn = np.full((len(sizes), int(wanted.max(initial=0))), -1, dtype=np.int64)
    for column in range(drawn.shape[1]):
        rows = np.flatnonzero(wanted > column)
        last = sizes[rows] - wanted[rows] + column
        number = (stream.random(len(rows)) * (last + 1)).astype(np.int64)
        is_taken = (drawn[rows, :column] == number[:, None]).any(axis=1)
        drawn[rows, column] = np.where(is_taken, last, number)
    drawn.sort(axis=1)
    group, place = np.nonzero(drawn >= 0)
    return group, drawn[group, place]
