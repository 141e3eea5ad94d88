"""Split methods: assign items to splits by their domain.

``split_by_domain`` is the rule of the published covariate benchmarks (GOOD): items are sorted by
domain, boundaries are set at given shares and moved forward to the next change of domain, so that
no domain is divided. ``split_by_quantile`` is the rule of the published size splits of DD and NCI1:
small graphs for training, the largest tenth for test, and the graphs between form their own split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import SPLITS

TRAIN, ID_VAL, ID_TEST, OOD_VAL, OOD_TEST = range(5)
"""Codes of the splits, as in the column ``split``."""
UNUSED = -1
"""Code of items in no split."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainSplit:
    """Splits and environments of items."""

    split: Ints
    """``[n]`` code of the split, or -1; the whole training pool is in ``train``."""
    env_id: Ints
    """``[n]`` environment of the items of the training pool, -1 elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassMinimum:
    """Smallest number of items of every class in a test split."""

    label: Ints
    """``[n]`` class of every item; -1 without a class."""
    count: int

    def missing(self, items: Ints) -> Ints:
        """Return, per class, how many more of it ``items`` need."""
        present = self.label[self.label >= 0]
        counts = np.bincount(
            self.label[items][self.label[items] >= 0], minlength=int(present.max(initial=-1)) + 1
        )
        return np.asarray(np.maximum(self.count - counts, 0), dtype=np.int64)


def split_by_domain(
    domain: Ints,
    *,
    descending: bool,
    train: float,
    val: float,
    environments: int,
    minimum: ClassMinimum | None = None,
) -> DomainSplit:
    """Split items by their domains ``[n]``, numbered in ascending order.

    ``train`` and ``val`` are the shares of the training pool and of ``ood_val``; the pool is
    divided into at most ``environments`` groups of about equal size by the same rule. ``ood_test``
    gets more domains if that is needed for the ``minimum``, and ``ood_val`` moves with it.
    """
    count = len(domain)
    order = _domain_order(domain, descending=descending)
    borders = [0, int(count * train), int(count * (train + val))]
    if minimum is not None:
        borders = _borders_with_minimum(domain[order], order, borders, minimum)
    bucket = _bucket_by_domain(domain[order], borders)
    split = np.empty(count, dtype=np.int64)
    split[order] = np.array([TRAIN, OOD_VAL, OOD_TEST])[bucket]
    env_id = environments_by_domain(domain, split, descending=descending, environments=environments)
    return DomainSplit(split, env_id)


def divide_domains(domain: Ints, limit: int, generator: np.random.Generator) -> Ints:
    """Return the domains ``[n]`` with every larger one divided at random into equal parts.

    No part has more than ``limit`` items. Parts are numbered in the order of their domains.
    """
    counts = np.bincount(domain)
    parts = np.maximum(-(-counts // limit), 1)
    first = np.cumsum(parts) - parts
    order = np.lexsort((generator.random(len(domain)), domain))
    start = np.cumsum(counts) - counts
    owner = domain[order]
    rank = np.arange(len(domain)) - start[owner]
    divided = np.empty_like(domain)
    divided[order] = first[owner] + rank * parts[owner] // np.maximum(counts[owner], 1)
    return divided


def _borders_with_minimum(
    domain: Ints, order: Ints, borders: list[int], minimum: ClassMinimum
) -> list[int]:
    """Return borders that leave enough items of every class after the last one.

    ``domain`` are the sorted domains. The borders move to earlier changes of domain, by as much as
    needed; the first item of the training pool stays.
    """
    wanted = borders[2] - borders[1]
    starts = np.flatnonzero(_bucket_by_domain(domain, borders) == 2)
    last = int(starts[0]) if len(starts) else len(domain)
    changes = 1 + np.flatnonzero(domain[1:] != domain[:-1])
    earlier = [last, *changes[changes < last][::-1].tolist()]
    for start in earlier:
        before = changes[changes < start]  # where ood_val may start
        if len(before) and not minimum.missing(order[start:]).any():
            fitting = before[before <= start - wanted]
            return [0, int(fitting[-1] if len(fitting) else before[0]), start]
    return borders


def hold_out_minimum(split: Ints, minimum: ClassMinimum, generator: np.random.Generator) -> Ints:
    """Return the splits with enough items of every class in ``id_test``.

    Random training items of rare classes move to ``id_test``. Items of frequent classes move back,
    as far as enough of them remain.
    """
    moved = split.copy()
    missing = minimum.missing(np.flatnonzero(moved == ID_TEST))
    for class_ in np.flatnonzero(missing).tolist():
        pool = np.flatnonzero((moved == TRAIN) & (minimum.label == class_))
        moved[generator.permutation(pool)[: missing[class_]]] = ID_TEST
    for _ in range(int(missing.sum())):
        inside = np.flatnonzero(moved == ID_TEST)
        label = minimum.label[inside]
        spare = np.bincount(label[label >= 0], minlength=len(missing)) - minimum.count
        if not len(spare) or spare.max() <= 0:
            break
        moved[generator.choice(inside[label == spare.argmax()])] = TRAIN
    return moved


def split_by_quantile(
    domain: Ints, size: Array, *, descending: bool, train: float, test: float, environments: int
) -> DomainSplit:
    """Split items by quantiles of ``size`` ``[n]``, of which ``domain`` is the rank.

    Items up to the quantile ``train`` make up the training pool, those from the quantile
    ``1 - test`` on ``ood_test``, and those between ``ood_val``; ``descending`` reverses the order.
    """
    values = -size if descending else size
    split = np.full(len(values), OOD_VAL, dtype=np.int64)
    if len(values):
        low, high = np.quantile(values, [train, 1 - test])
        split[values >= high] = OOD_TEST
        split[values <= low] = TRAIN
    env_id = environments_by_domain(domain, split, descending=descending, environments=environments)
    return DomainSplit(split, env_id)


def split_at_random(
    domain: Ints, generator: np.random.Generator, *, descending: bool, train: float, val: float,
    environments: int,
) -> DomainSplit:  # fmt: skip
    """Split items at random, as a control without distribution shift."""
    count = len(domain)
    borders = [int(count * train), int(count * (train + val))]
    split = np.empty(count, dtype=np.int64)
    split[generator.permutation(count)] = np.array([TRAIN, OOD_VAL, OOD_TEST])[
        np.searchsorted(borders, np.arange(count), side="right")
    ]
    env_id = environments_by_domain(domain, split, descending=descending, environments=environments)
    return DomainSplit(split, env_id)


def environments_by_domain(
    domain: Ints, split: Ints, *, descending: bool, environments: int
) -> Ints:
    """Divide the training pool into at most ``environments`` groups of about equal size by domain.

    Returns the group of every item, from 0, and -1 outside the pool. No domain is divided.
    """
    order = _domain_order(domain, descending=descending)
    pool = order[split[order] == TRAIN]
    size = len(pool) // environments
    env_id = np.full(len(domain), -1, dtype=np.int64)
    env_id[pool] = _bucket_by_domain(domain[pool], [index * size for index in range(environments)])
    return env_id


def hold_out(
    split: Ints, size: int, generator: np.random.Generator, test: int | None = None
) -> Ints:
    """Return the splits with items of ``train`` moved to ``id_val`` and ``id_test``.

    ``size`` random items go to ``id_val`` and ``test`` (default: ``size``) to ``id_test``.
    """
    test = size if test is None else test
    pool = generator.permutation(np.flatnonzero(split == TRAIN))
    moved = split.copy()
    moved[pool[len(pool) - size - test : len(pool) - test]] = ID_VAL
    moved[pool[len(pool) - test :]] = ID_TEST
    return moved


def split_counts(split: Ints) -> dict[str, int]:
    """Return the number of items of each split, by name."""
    counts = np.bincount(split[split >= 0], minlength=5)
    return {name: int(number) for name, number in zip(SPLITS, counts, strict=False)}


def _domain_order(domain: Ints, *, descending: bool) -> Ints:
    order = np.argsort(domain, kind="stable")
    return order[::-1] if descending else order


def _bucket_by_domain(domain: Ints, borders: list[int]) -> Ints:
    """Return the bucket of every sorted item; boundaries move to the next change of domain."""
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
