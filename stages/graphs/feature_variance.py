"""Feature extrapolation: which features vary between environments, their domains, and partners.

A feature that varies inside a label and hardly inside an environment is not what makes the label.
Such features of a sample are moved (``moving.py``) away from a partner of the same label and
another environment. Features are dense rows or CSR; what is sparse stays sparse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.graphs.node_features import Features

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


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """Rows to draw partners from, ordered by label and environment.

    What a sample may draw depends on its label and environment alone, and is told by tables of all
    pairs of them: none, those of rows, and any other, ``[(L + 2) * (E + 2)]`` each.
    """

    rows: Ints
    """``[R + 1]`` rows that have a label and an environment, and -1 for who has no partner."""
    others: Ints
    """How many partners there are."""
    first: Ints
    """Where the rows of the label start."""
    own: Ints
    """Where those of its own environment start, which are left out; or where all rows end."""
    skipped: Ints
    """How many are left out."""
    labels: int
    envs: int

    @classmethod
    def of(cls, label: Ints, env: Ints) -> Partners:
        """Order rows; those of no label or no environment are nobody's partner."""
        known = np.flatnonzero((label >= 0) & (env >= 0))
        rows = known[np.lexsort((env[known], label[known]))]
        envs, labels = int(env.max(initial=-1)) + 1, int(label.max(initial=-1)) + 1
        shape = (labels + 2, envs + 2)
        pair = (label[rows] + 1) * shape[1] + env[rows] + 1
        skipped = np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape)
        start = pointers(skipped.reshape(-1))[:-1].reshape(shape)
        others = skipped.sum(axis=1, keepdims=True) - skipped
        others[:, 0] = 0
        alone = others == 0
        return cls(
            rows=np.append(rows, -1),
            others=others.reshape(-1),
            first=np.where(alone, len(rows), start[:, :1]).reshape(-1),
            own=np.where(alone | (skipped == 0), len(rows) + 1, start).reshape(-1),
            skipped=skipped.reshape(-1),
            labels=labels,
            envs=envs,
        )

    def count(self, label: Ints, env: Ints) -> Ints:
        """Return how many partners are there for each of some samples."""
        return self.others.take(self._pair(label, env))

    def draw(self, label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
        """Return, per sample, a random row of its label and another environment; -1 without any."""
        pair = self._pair(label, env)
        turn = (stream.random(len(label)) * self.others.take(pair)).astype(np.int64)
        turn += self.first.take(pair)
        turn += self.skipped.take(pair) * (turn >= self.own.take(pair))
        return self.rows.take(turn)

    def _pair(self, label: Ints, env: Ints) -> Ints:
        """Return the place of a label and an environment in the tables."""
        place = np.minimum(np.maximum(label, -1), self.labels)
        place += 1
        place *= self.envs + 2
        place += np.minimum(np.maximum(env, -1), self.envs)
        place += 1
        return place


def partners(label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
    """Return, per row, a random row of the same label and another environment; -1 without any.

    Rows of no label or no environment have no partner and are none.
    """
    return Partners.of(label, env).draw(label, env, stream)
