"""Variance of features within labels and environments, feature ranges, and partners for FeatX.

A feature that varies within labels but hardly within environments depends on the environment and
does not cause the label. FeatX moves such features away from a partner with the same label from
another environment. Features are dense rows or CSR; sparse features stay sparse.
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
    """Count, mean and sum of squared deviations, per group and feature."""

    count: Floats
    """``[G]``."""
    mean: Floats
    """``[G, F]``."""
    squares: Floats
    """``[G, F]``."""

    @classmethod
    def empty(cls, groups: int, width: int) -> Moments:
        """Return the moments of zero rows."""
        return cls(np.zeros(groups), np.zeros((groups, width)), np.zeros((groups, width)))

    def within(self) -> Floats:
        """Return the within-group variance ``[F]``, averaged over all rows."""
        total = max(float(self.count.sum()), 1.0)
        variance: Floats = self.squares.sum(axis=0) / total
        return variance

    def updated(self, features: Features, group: Ints) -> Moments:
        """Return the moments after adding rows; rows of a negative group are skipped."""
        grouped = group >= 0
        return _merge(self, _moments(features[grouped], group[grouped], len(self.count)))


def moments(blocks: Iterable[tuple[Features, Ints]], groups: int, width: int) -> Moments:
    """Return the moments of features ``[n, F]`` by group ``[n]``, in one pass over blocks.

    Rows of a negative group are skipped. Blocks are merged with the algorithm of Chan et al., which
    is numerically stable: it never subtracts large sums.
    """
    total = Moments.empty(groups, width)
    for features, group in blocks:
        total = total.updated(features, group)
    return total


def _moments(features: Features, group: Ints, groups: int) -> Moments:
    rows = len(group)
    count = np.bincount(group, minlength=groups).astype(np.float64)
    member = csr_matrix(
        (np.ones(rows), group, np.arange(rows + 1)), shape=(rows, groups)
    ).T.tocsr()  # fmt: skip
    size = np.maximum(count, 1)[:, None]
    if not isinstance(features, csr_matrix):
        values = np.asarray(features, dtype=np.float64)
        mean = member @ values / size
        return Moments(count, mean, member @ (values - mean[group]) ** 2)
    values = features.astype(np.float64)
    mean = np.asarray((member @ values).todense()) / size
    owner = np.repeat(group, np.diff(values.indptr))
    deviation = values.copy()
    deviation.data = (values.data - mean[owner, values.indices]) ** 2
    stored = values.copy()
    stored.data = np.ones(len(values.data))
    zeros = count[:, None] - np.asarray((member @ stored).todense())
    return Moments(count, mean, np.asarray((member @ deviation).todense()) + zeros * mean**2)


def _merge(left: Moments, right: Moments) -> Moments:
    count = left.count + right.count
    share = (right.count / np.maximum(count, 1))[:, None]
    step = right.mean - left.mean
    return Moments(
        count,
        left.mean + step * share,
        left.squares + right.squares + step**2 * left.count[:, None] * share,
    )


def within_group_variance_share(groups: Moments, whole: Moments) -> Floats:
    """Return within-group variance over total variance ``[F]``; 1 for constant features.

    Both estimates are unbiased: for uninformative groups the expected share is 1 for any number of
    rows, so a share may exceed 1. Shares are comparable between features of different units.
    """
    rows, used = float(whole.count.sum()), int((groups.count > 0).sum())
    inside = groups.squares.sum(axis=0) / max(rows - used, 1.0)
    total = whole.squares.sum(axis=0) / max(rows - 1, 1.0)
    share: Floats = np.where(total > 0, inside / np.where(total > 0, total, 1.0), 1.0)
    return share


def variance_scores(in_labels: Floats, in_envs: Floats, k1: float, k2: float) -> Floats:
    """Return the score ``k1 · variance in labels - k2 · variance in environments`` per feature."""
    return k1 * in_labels - k2 * in_envs


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRanges:
    """Range of each feature, and the spacing of its values."""

    low: Floats
    high: Floats
    step: Floats
    """``[F]`` spacing of values; 0 for continuous features."""

    def contains(self, values: Array) -> npt.NDArray[np.bool_]:
        """Return which values of rows ``[n, F]`` are in range and on the grid."""
        inside = (values >= self.low) & (values <= self.high)
        steps = (values - self.low) / np.where(self.step > 0, self.step, 1)
        return np.asarray(inside & ((self.step == 0) | (steps == np.round(steps))))


def infer_feature_ranges(features: Features) -> FeatureRanges:
    """Return the ranges of training features ``[n, F]`` and their spacing.

    Integer features get spacing 1, and a feature with two values takes only these two. Sparse
    features always include zero.
    """
    if not features.shape[0]:
        raise StageError("no rows to infer feature ranges from.")
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
    return FeatureRanges(low, high, np.where(high > low, step, 0.0))


def merge_feature_ranges(left: FeatureRanges, right: FeatureRanges) -> FeatureRanges:
    """Return the ranges of the rows from which two ranges were inferred."""
    low, high = np.minimum(left.low, right.low), np.maximum(left.high, right.high)
    two, whole = np.ones(len(low), dtype=bool), np.ones(len(low), dtype=bool)
    for side in (left, right):
        constant = side.high == side.low
        ends = [(end == low) | (end == high) for end in (side.low, side.high)]
        two &= ends[0] & ends[1] & (constant | (side.step == side.high - side.low))
        grid = constant | ((side.step > 0) & (side.step == np.round(side.step)))
        whole &= grid & (side.low == np.round(side.low))
    step = np.where(two, high - low, np.where(whole, 1.0, 0.0))
    return FeatureRanges(low, high, np.where(high > low, step, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """Rows to draw partners from, ordered by label and environment.

    The partners of a sample depend on its label and environment alone. Lookup tables over all pairs
    hold them: missing, each known value, and any unknown value, ``[(L + 2) * (E + 2)]`` each.
    """

    rows: Ints
    """``[R + 1]`` rows with a label and an environment, then -1 for samples without partner."""
    others: Ints
    """Number of partners."""
    first: Ints
    """Offset of the first row with the label."""
    own: Ints
    """Offset of the skipped rows of the sample's own environment; past the end if none."""
    skipped: Ints
    """Number of skipped rows."""
    labels: int
    envs: int

    @classmethod
    def of(cls, label: Ints, env: Ints) -> Partners:
        """Index rows; a row without label or environment is never a partner."""
        complete = np.flatnonzero((label >= 0) & (env >= 0))
        rows = complete[np.lexsort((env[complete], label[complete]))]
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
        """Return the number of partners of each sample."""
        return self.others.take(self._pair(label, env))

    def draw(self, label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
        """Return a random row per sample with its label and another environment; -1 if none."""
        pair = self._pair(label, env)
        rank = (stream.random(len(label)) * self.others.take(pair)).astype(np.int64)
        rank += self.first.take(pair)
        rank += self.skipped.take(pair) * (rank >= self.own.take(pair))
        return self.rows.take(rank)

    def _pair(self, label: Ints, env: Ints) -> Ints:
        """Return the table index of a label and an environment."""
        index = np.minimum(np.maximum(label, -1), self.labels)
        index += 1
        index *= self.envs + 2
        index += np.minimum(np.maximum(env, -1), self.envs)
        index += 1
        return index


def draw_partners(label: Ints, env: Ints, stream: np.random.Generator) -> Ints:
    """Return, per row, a random row with the same label from another environment; -1 if none.

    Rows without label or environment have no partner and are never a partner.
    """
    return Partners.of(label, env).draw(label, env, stream)
