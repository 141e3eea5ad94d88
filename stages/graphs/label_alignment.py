"""Label alignment: detect class ids that are permuted between training and held-out samples.

Files that were labeled separately, one per university or year, may use different ids for one class.
A classifier that learns the classes then scores below chance. A nearest-mean classifier (cosine
similarity) predicts the class of held-out samples; if accuracy is far higher after a permutation of
the ids, the ids are not aligned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.table import GraphTable

MIN_MATCHED = 0.5
"""Minimum accuracy under a permutation for the permutation to count."""
MIN_RATIO = 2.0
"""Minimum ratio to the accuracy without a permutation."""
MIN_GAIN = 0.15
"""Minimum gain over the share of the largest class."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseEntries:
    """Non-zero features of samples as coordinates, ``[K]`` each."""

    row: Ints
    column: Ints
    value: Array
    """float64."""

    @classmethod
    def of(cls, table: GraphTable) -> SparseEntries:
        """Return the entries of all nodes of a table, with dense or sparse features."""
        if "node_feat_index" in table.node:
            index = table.lists("node", "node_feat_index")
            row, column = row_indices(index.ptr), index.values
            value = table.lists("node", "node_feat_value").values
        else:
            dense = table.dense("node", "node_feat")
            row, column = np.nonzero(dense)
            value = dense[row, column]
        kept = value != 0
        return cls(row[kept], column[kept].astype(np.int64), value[kept].astype(np.float64))

    @property
    def width(self) -> int:
        """Number of features, up to the last one that occurs."""
        return int(self.column.max(initial=0)) + 1

    def select(self, rows: Array) -> SparseEntries:
        """Return the entries of the samples in a mask."""
        kept = rows[self.row]
        return SparseEntries(self.row[kept], self.column[kept], self.value[kept])

    def normalized(self, count: int) -> SparseEntries:
        """Return the entries of ``count`` samples scaled to unit length."""
        length = np.sqrt(np.bincount(self.row, self.value**2, minlength=count))
        return SparseEntries(self.row, self.column, self.value / length[self.row])


@dataclass(frozen=True, slots=True)
class LabelAlignment:
    """Agreement between class ids of held-out samples and classes of training samples."""

    agreement: float
    """Accuracy of the nearest-mean classifier."""
    best: float
    """Accuracy under the best permutation of class ids."""
    matched_class: tuple[int, ...]
    """Training class of each class under that permutation."""
    largest: float
    """Share of the largest class."""

    @property
    def differs(self) -> bool:
        """Whether class ids are probably permuted."""
        threshold = max(MIN_MATCHED, self.largest + MIN_GAIN, MIN_RATIO * self.agreement)
        return self.best >= threshold


def align_labels(
    entries: SparseEntries, label: Ints, train: Array, other: Array, classes: int
) -> LabelAlignment | None:
    """Classify samples ``other`` by the nearest class mean of ``train``, both masks ``[n]``.

    Samples without a class are skipped. Returns None without samples to compare.
    """
    train, other = train & (label >= 0), other & (label >= 0)
    if not train.any() or not other.any():
        return None
    entries = entries.normalized(len(label))
    training = entries.select(train)
    cell = label[training.row] * entries.width + training.column
    size = classes * entries.width
    sums = np.bincount(cell, training.value, minlength=size).reshape(classes, entries.width)
    length = np.sqrt((sums**2).sum(axis=1, keepdims=True))
    means = sums / np.where(length > 0, length, 1.0)
    queried = entries.select(other)
    similarity = [
        np.bincount(queried.row, queried.value * mean[queried.column], minlength=len(label))[other]
        for mean in means
    ]
    count = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(count, (label[other], np.argmax(similarity, axis=0)), 1)
    matched_class = _greedy_matching(count)
    total = int(other.sum())
    return LabelAlignment(
        agreement=round(float(np.trace(count)) / total, 6),
        best=round(float(count[np.arange(classes), matched_class].sum()) / total, 6),
        matched_class=tuple(matched_class.tolist()),
        largest=round(float(count.sum(axis=1).max()) / total, 6),
    )


def _greedy_matching(count: Ints) -> Ints:
    """Return a one-to-one matching of classes, most frequent pairs first."""
    match = np.full(len(count), -1, dtype=np.int64)
    taken = np.zeros(len(count), dtype=bool)
    # Among equally frequent pairs, a class matched with itself comes first.
    order = np.lexsort((-np.eye(len(count)).ravel(), -count.ravel()))
    for actual, predicted in zip(*np.divmod(order, len(count)), strict=True):
        if match[actual] < 0 and not taken[predicted]:
            match[actual], taken[predicted] = predicted, True
    return match
