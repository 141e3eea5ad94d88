"""Whether the class numbers of held-out samples mean the classes that training numbers so.

Files that were numbered apart, one per university or year, may call one class by two numbers. A
classifier that learns the classes then scores less than one that learns nothing. Samples are told
by the nearest mean of a training class, by angle; if they are told far better once their classes
are numbered otherwise, the numbers differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, rows_of
from gsx.table import GraphTable

TOLD = 0.5
"""Share of samples that must be told by another numbering before it is believed."""
FACTOR = 2.0
"""How many times as many as by their own numbers."""
BEYOND = 0.15
"""How much more than their largest class."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Features of samples that are not zero, ``[K]`` each; nothing sparse is made dense."""

    row: Ints
    column: Ints
    value: Array
    """float64."""

    @classmethod
    def of(cls, table: GraphTable) -> Entries:
        """Return those of all nodes of a table, which stores them as rows or as lists."""
        if "node_feat_index" in table.node:
            index = table.lists("node", "node_feat_index")
            row, column = rows_of(index.ptr), index.values
            value = table.lists("node", "node_feat_value").values
        else:
            dense = table.dense("node", "node_feat")
            row, column = np.nonzero(dense)
            value = dense[row, column]
        kept = value != 0
        return cls(row[kept], column[kept].astype(np.int64), value[kept].astype(np.float64))

    @property
    def width(self) -> int:
        """Features there are, up to the last that any sample has."""
        return int(self.column.max(initial=0)) + 1

    def among(self, rows: Array) -> Entries:
        """Return those of some samples, given as a mask."""
        kept = rows[self.row]
        return Entries(self.row[kept], self.column[kept], self.value[kept])

    def of_unit_length(self, count: int) -> Entries:
        """Return the same of samples that are all as long as 1, of ``count`` in all."""
        length = np.sqrt(np.bincount(self.row, self.value**2, minlength=count))
        return Entries(self.row, self.column, self.value / length[self.row])


@dataclass(frozen=True, slots=True)
class Numbering:
    """How classes of some samples are told by those of others."""

    agreement: float
    """Share of samples that are told as their own class."""
    best: float
    """The same, once classes are numbered as they are told best."""
    meaning: tuple[int, ...]
    """The class of training that each class is told as then."""
    largest: float
    """Share of the largest class."""

    @property
    def differs(self) -> bool:
        """Whether classes seem to be numbered otherwise."""
        enough = max(TOLD, self.largest + BEYOND, FACTOR * self.agreement)
        return self.best >= enough


def numbering(
    entries: Entries, label: Ints, train: Array, other: Array, classes: int
) -> Numbering | None:
    """Tell samples ``other`` by the means of classes of ``train``, both masks ``[n]``.

    Samples of no class are left out; None where nothing is left to compare.
    """
    train, other = train & (label >= 0), other & (label >= 0)
    if not train.any() or not other.any():
        return None
    entries = entries.of_unit_length(len(label))
    shown = entries.among(train)
    place = label[shown.row] * entries.width + shown.column
    size = classes * entries.width
    sums = np.bincount(place, shown.value, minlength=size).reshape(classes, entries.width)
    length = np.sqrt((sums**2).sum(axis=1, keepdims=True))
    means = sums / np.where(length > 0, length, 1.0)
    asked = entries.among(other)
    near = [
        np.bincount(asked.row, asked.value * mean[asked.column], minlength=len(label))[other]
        for mean in means
    ]
    count = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(count, (label[other], np.argmax(near, axis=0)), 1)
    meaning = _matched(count)
    held = int(other.sum())
    return Numbering(
        agreement=round(float(np.trace(count)) / held, 6),
        best=round(float(count[np.arange(classes), meaning].sum()) / held, 6),
        meaning=tuple(meaning.tolist()),
        largest=round(float(count.sum(axis=1).max()) / held, 6),
    )


def _matched(count: Ints) -> Ints:
    """Return a class for every class, each once: those that meet most often first."""
    found = np.full(len(count), -1, dtype=np.int64)
    taken = np.zeros(len(count), dtype=bool)
    # Of pairs that meet equally often, a class with itself comes first.
    order = np.lexsort((-np.eye(len(count)).ravel(), -count.ravel()))
    for own, told in zip(*np.divmod(order, len(count)), strict=True):
        if found[own] < 0 and not taken[told]:
            found[own], taken[told] = told, True
    return found
