"""Weighted sampling without replacement in many groups at once."""

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
