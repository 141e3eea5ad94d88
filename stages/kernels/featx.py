"""Feature extrapolation: which features vary between environments, and samples that go further.

A feature that varies inside a label and hardly inside an environment is not what makes the label.
Such features of a sample are moved away from a partner of the same label and another environment,
``(1 + λ) x1 - λ x2``, and wrapped into the domain of the feature. All others keep their bits.
Features are dense rows or CSR; what is sparse stays sparse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.stages.kernels.rows import Features

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Count, mean and summed squares about it, per group ``g`` and feature."""

    count: Floats
    """``[G]``."""
    mean: Floats
    """``[G, F]``."""
    squares: Floats
    """``[G, F]``."""

    @classmethod
    def none(cls, groups: int, width: int) -> Moments:
        """Return the moments of no rows."""
        return cls(np.zeros(groups), np.zeros((groups, width)), np.zeros((groups, width)))

    def within(self) -> Floats:
        """Return the variance inside groups ``[F]``, the mean over all rows."""
        total = max(float(self.count.sum()), 1.0)
        found: Floats = self.squares.sum(axis=0) / total
        return found

    def plus(self, features: Features, group: Ints) -> Moments:
        """Return the moments of these rows and further ones; negative groups are left out."""
        known = group >= 0
        return _merge(self, _moments(features[known], group[known], len(self.count)))


def moments(parts: Iterable[tuple[Features, Ints]], groups: int, width: int) -> Moments:
    """Return the moments of features ``[n, F]`` by group ``[n]``, in one pass over parts.

    Rows of a negative group are left out. Squares are summed about the mean of each part, and parts
    are merged as Chan et al. do: no difference of large sums is taken.
    """
    total = Moments.none(groups, width)
    for features, group in parts:
        total = total.plus(features, group)
    return total


def _moments(features: Features, group: Ints, groups: int) -> Moments:
    rows = len(group)
    count = np.bincount(group, minlength=groups).astype(np.float64)
    member = csr_matrix(
        (np.ones(rows), group, np.arange(rows + 1)), shape=(rows, groups)
    ).T.tocsr()  # fmt: skip
    each = np.maximum(count, 1)[:, None]
    if not isinstance(features, csr_matrix):
        values = np.asarray(features, dtype=np.float64)
        mean = member @ values / each
        return Moments(count, mean, member @ (values - mean[group]) ** 2)
    values = features.astype(np.float64)
    mean = np.asarray((member @ values).todense()) / each
    owner = np.repeat(group, np.diff(values.indptr))
    apart = values.copy()
    apart.data = (values.data - mean[owner, values.indices]) ** 2
    there = values.copy()
    there.data = np.ones(len(values.data))
    zeros = count[:, None] - np.asarray((member @ there).todense())
    return Moments(count, mean, np.asarray((member @ apart).todense()) + zeros * mean**2)


def _merge(left: Moments, right: Moments) -> Moments:
    count = left.count + right.count
    share = (right.count / np.maximum(count, 1))[:, None]
    step = right.mean - left.mean
    return Moments(
        count,
        left.mean + step * share,
        left.squares + right.squares + step**2 * left.count[:, None] * share,
    )


def shares_within(groups: Moments, whole: Moments) -> Floats:
    """Return the variance inside groups over that of all rows ``[F]``; 1 where nothing varies.

    Both are freed of bias: where groups mean nothing the share is 1 on average, however few rows
    there are, so it may exceed 1. Shares of features in different units can be compared.
    """
    rows, used = float(whole.count.sum()), int((groups.count > 0).sum())
    inside = groups.squares.sum(axis=0) / max(rows - used, 1.0)
    total = whole.squares.sum(axis=0) / max(rows - 1, 1.0)
    found: Floats = np.where(total > 0, inside / np.where(total > 0, total, 1.0), 1.0)
    return found


def variance_scores(in_labels: Floats, in_envs: Floats, k1: float, k2: float) -> Floats:
    """Return how much each feature varies inside labels beyond what it does inside environments."""
    return k1 * in_labels - k2 * in_envs


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """What values each feature may have."""

    low: Floats
    high: Floats
    step: Floats
    """``[F]`` distance of neighboring values; 0 where every number between low and high is one."""

    def contain(self, values: Array) -> npt.NDArray[np.bool_]:
        """Say of rows ``[n, F]`` which values are in their domains."""
        inside = (values >= self.low) & (values <= self.high)
        turns = (values - self.low) / np.where(self.step > 0, self.step, 1)
        return np.asarray(inside & ((self.step == 0) | (turns == np.round(turns))))


def infer_domains(features: Features) -> Domains:
    """Return the domains of training features ``[n, F]``: their range, and its grid.

    Whole numbers stay whole numbers, and a feature of two values has these two. Zero is a value of
    every feature that is stored sparse.
    """
    if not features.shape[0]:
        raise StageError("no rows to take the domains of features from.")
    if isinstance(features, csr_matrix):
        low, high = (
            np.asarray(ends.todense(), dtype=np.float64).ravel()
            for ends in (features.min(axis=0), features.max(axis=0))
        )
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        zero_between = (low < 0) & (high > 0)
        column, values = features.indices, features.data.astype(np.float64)
    else:
        low, high = (np.asarray(f(axis=0), dtype=np.float64) for f in (features.min, features.max))
        column = np.tile(np.arange(features.shape[1]), len(features))
        values = features.astype(np.float64).ravel()
        zero_between = np.zeros(features.shape[1], dtype=bool)
    between = (values != low[column]) & (values != high[column])
    width = features.shape[1]
    whole = np.bincount(column[values != np.round(values)], minlength=width) == 0
    two = (np.bincount(column[between], minlength=width) == 0) & ~zero_between
    step = np.where(two, high - low, np.where(whole, 1.0, 0.0))
    return Domains(low, high, np.where(high > low, step, 0.0))


def merge_domains(left: Domains, right: Domains) -> Domains:
    """Return the domains of the rows that two were inferred from."""
    low, high = np.minimum(left.low, right.low), np.maximum(left.high, right.high)
    two, whole = np.ones(len(low), dtype=bool), np.ones(len(low), dtype=bool)
    for part in (left, right):
        constant = part.high == part.low
        ends = [(end == low) | (end == high) for end in (part.low, part.high)]
        two &= ends[0] & ends[1] & (constant | (part.step == part.high - part.low))
        grid = constant | ((part.step > 0) & (part.step == np.round(part.step)))
        whole &= grid & (part.low == np.round(part.low))
    step = np.where(two, high - low, np.where(whole, 1.0, 0.0))
    return Domains(low, high, np.where(high > low, step, 0.0))


def wrap(values: Array, low: Array, high: Array, step: Array) -> Floats:
    """Return values inside their domains; those that were inside keep their bits.

    On a grid a value goes to the nearest multiple of the step, then around; between two ends it
    goes around.
    """
    values = np.asarray(values, dtype=np.float64)
    grid = step > 0
    if not grid.any():
        return _around(values, low, high)
    stepped = _on_grid(values, low, high, np.where(grid, step, 1.0))
    return stepped if grid.all() else np.where(grid, stepped, _around(values, low, high))


def _around(values: Floats, low: Array, high: Array) -> Floats:
    inside = (values >= low) & (values <= high)
    if inside.all():
        return values
    found = _turned(values - low, np.where(high > low, high - low, 1.0))
    found += low
    np.clip(found, low, high, out=found)
    np.copyto(found, values, where=inside)
    return found


def _on_grid(values: Floats, low: Array, high: Array, step: Array) -> Floats:
    turns = np.round((values - low) / step)
    found = _turned(turns, np.round((high - low) / step) + 1)
    found *= step
    found += low
    return np.clip(found, low, high, out=found)


def _turned(values: Floats, length: Array) -> Floats:
    """Bring values into ``[0, length)`` in place, as a modulo does, only faster."""
    whole = values / length
    np.floor(whole, out=whole)
    whole *= length
    values -= whole
    return values


def extrapolate(
    own: Features, partner: Features, strength: Array, mask: Array, domains: Domains
) -> Features:
    """Return rows ``own`` moved away from ``partner`` in the features of ``mask`` ``[F]``.

    ``strength`` ``[n]`` is λ of every row; between -1 and 0 it moves towards the partner instead.
    """
    _check(own, partner, strength, mask, domains)
    if isinstance(own, csr_matrix):
        return _extrapolate_sparse(own, csr_matrix(partner), strength, mask, domains)
    every = bool(mask.all())
    chosen = slice(None) if every else np.flatnonzero(mask)
    # Feature by feature: NumPy is slow where the last axis, that of a few features, is short.
    first, second = (rows[:, chosen].T.astype(np.float64, order="C") for rows in (own, partner))
    moved = first - second
    moved *= strength
    moved += first
    ends = (values[chosen, None] for values in (domains.low, domains.high, domains.step))
    wrapped = wrap(moved, *ends).T
    if every:
        return wrapped.astype(own.dtype, order="C")
    found: Array = own.copy()
    found[:, chosen] = wrapped
    return found


def _extrapolate_sparse(
    own: csr_matrix, partner: csr_matrix, strength: Array, mask: Array, domains: Domains
) -> csr_matrix:
    """Move what is stored in either row; where both are zero, zero stays."""
    outside = np.flatnonzero(mask & ((domains.low > 0) | (domains.high < 0)))
    if len(outside):
        raise StageError(
            f"feature {outside[0]} is sparse, and its domain {domains.low[outside[0]]:g} to "
            f"{domains.high[outside[0]]:g} has no zero. Give it a domain with one."
        )
    difference = csr_matrix(own.astype(np.float64) - partner.astype(np.float64))
    row = np.repeat(np.arange(own.shape[0]), np.diff(difference.indptr))
    column = difference.indices
    kept = mask[column]
    step = csr_matrix(
        (strength[row[kept]] * difference.data[kept], (row[kept], column[kept])), shape=own.shape
    )
    moved = csr_matrix(own.astype(np.float64) + step)
    column = moved.indices
    wrapped = wrap(moved.data, domains.low[column], domains.high[column], domains.step[column])
    moved.data = np.where(mask[column], wrapped, moved.data)
    moved = moved.astype(own.dtype)
    moved.eliminate_zeros()
    moved.sort_indices()
    return moved


def _check(
    own: Features, partner: Features, strength: Array, mask: Array, domains: Domains
) -> None:
    if own.shape != partner.shape or len(strength) != own.shape[0]:
        raise StageError(
            f"{own.shape[0]} rows of {own.shape[1]} features cannot meet {partner.shape[0]} of "
            f"{partner.shape[1]} with {len(strength)} strengths."
        )
    if len(mask) != own.shape[1] or len(domains.low) != own.shape[1]:
        raise StageError(
            f"the mask is for {len(mask)} features and the domains for {len(domains.low)}; rows "
            f"have {own.shape[1]}. Use the mask of this corpus."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """Rows to draw partners from, ordered by label and environment."""

    rows: Ints
    """``[R]`` rows that have a label and an environment."""
    label: Ints
    """``[R]``, rising."""
    group: Ints
    """``[R]`` label and environment as one number, rising."""
    envs: int

    @classmethod
    def of(cls, label: Ints, env: Ints) -> Partners:
        """Order rows; those of no label or no environment are nobody's partner."""
        known = np.flatnonzero((label >= 0) & (env >= 0))
        rows = known[np.lexsort((env[known], label[known]))]
        envs = int(env.max(initial=0)) + 1
        sorted_label = label[rows].astype(np.int64)
        return cls(rows, sorted_label, sorted_label * envs + env[rows], envs)

    def count(self, label: Ints, env: Ints) -> Ints:
        """Return how many partners are there for each of some samples."""
        first, last, own_first, own_last = self._runs(label, env)
        return (last - first) - (own_last - own_first)

    def draw(self, label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
        """Return, per sample, a random row of its label and another environment; -1 without any."""
        first, last, own_first, own_last = self._runs(label, env)
        others = (last - first) - (own_last - own_first)
        turn = first + (stream.random(len(label)) * others).astype(np.int64)
        turn += np.where(turn >= own_first, own_last - own_first, 0)
        if not len(self.rows):
            return np.full(len(label), -1, dtype=np.int64)
        drawn = self.rows[np.minimum(turn, len(self.rows) - 1)]
        return np.where((others > 0) & (label >= 0) & (env >= 0), drawn, -1)

    def _runs(self, label: Ints, env: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return where the rows of a label start and end, and in them those of an environment."""
        first, last = (np.searchsorted(self.label, label, side) for side in ("left", "right"))
        # An environment that no row has is no place in the order: its run is empty.
        code = np.where(env < self.envs, label * self.envs + env, -1)
        own_first, own_last = (
            np.searchsorted(self.group, code, side) for side in ("left", "right")
        )
        empty = own_first == own_last
        return first, last, np.where(empty, last, own_first), np.where(empty, last, own_last)


def partners(label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
    """Return, per row, a random row of the same label and another environment; -1 without any.

    Rows of no label or no environment have no partner and are none.
    """
    return Partners.of(label, env).draw(label, env, stream)
