"""Splits by a sorted domain: training sees one end of it, testing the other.

The rule is that of the published covariate benchmarks: items are sorted by domain, borders are put
at given shares and then moved forward to the next change of domain, so that no domain is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.columns import SPLITS
from gsx.ragged import Ints

TRAIN, ID_VAL, ID_TEST, OOD_VAL, OOD_TEST = range(5)
"""Codes of the splits, as in the column ``split``."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainSplit:
    """Where items go."""

    split: Ints
    """``[n]`` code of the split; items of the training pool are all in ``train``."""
    env_id: Ints
    """``[n]`` environment of the items of the training pool, -1 elsewhere."""


def split_by_domain(
    domain: Ints, *, descending: bool, train: float, val: float, environments: int
) -> DomainSplit:
    """Split items by their domains ``[n]``, numbered in ascending order.

    ``train`` and ``val`` are the shares of the training pool and of ``ood_val``; the pool is cut
    into at most ``environments`` parts of about equal size by the same rule.
    """
    count = len(domain)
    order = np.argsort(domain, kind="stable")
    if descending:
        order = order[::-1]
    bucket = _runs(domain[order], [0, int(count * train), int(count * (train + val))])
    split = np.empty(count, dtype=np.int64)
    split[order] = np.array([TRAIN, OOD_VAL, OOD_TEST])[bucket]
    pool = order[bucket == 0]
    each = len(pool) // environments
    env_id = np.full(count, -1, dtype=np.int64)
    env_id[pool] = _runs(domain[pool], [number * each for number in range(environments)])
    return DomainSplit(split, env_id)


def hold_out(split: Ints, size: int, generator: np.random.Generator) -> Ints:
    """Return the splits with ``size`` items of ``train`` each moved to ``id_val`` and ``id_test``.

    Which ones are moved is drawn at random.
    """
    pool = generator.permutation(np.flatnonzero(split == TRAIN))
    moved = split.copy()
    moved[pool[len(pool) - 2 * size : len(pool) - size]] = ID_VAL
    moved[pool[len(pool) - size :]] = ID_TEST
    return moved


def split_counts(split: Ints) -> dict[str, int]:
    """Return how many items each split has, by name."""
    counts = np.bincount(split, minlength=5)
    return {name: int(number) for name, number in zip(SPLITS, counts, strict=False)}


def _runs(domain: Ints, borders: list[int]) -> Ints:
    """Count the borders before every sorted item, each moved to the next change of domain."""
    changes = np.flatnonzero(np.append(True, domain[1:] != domain[:-1])) if len(domain) else domain
    starts = np.zeros(len(domain), dtype=np.int64)
    last = -1
    for border in borders:
        later = changes[changes >= max(border, last + 1)]
        if not len(later):
            break
        last = int(later[0])
        starts[last] = 1
    return np.cumsum(starts) - 1
