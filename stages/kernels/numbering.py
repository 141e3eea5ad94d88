"""Whether the class numbers of held-out samples mean the classes that training numbers so.

Files that were numbered apart, one per university or year, may call one class by two numbers. A
classifier that learns the classes then scores less than one that learns nothing. Samples are told
by the nearest mean of a training class, by angle; if they are told far better once their classes
are numbered otherwise, the numbers differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix, diags

from gsx.ragged import Array, Ints
from gsx.stages.kernels.rows import Features

TOLD = 0.5
"""Share of samples that must be told by another numbering before it is believed."""
FACTOR = 2.0
"""How many times as many as by their own numbers."""
BEYOND = 0.15
"""How much more than their largest class."""


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
    features: Features, label: Ints, train: Array, other: Array, classes: int
) -> Numbering | None:
    """Tell samples ``other`` by the means of classes of ``train``, both masks ``[n]``.

    Samples of no class are left out; None where nothing is left to compare.
    """
    train, other = np.flatnonzero(train & (label >= 0)), np.flatnonzero(other & (label >= 0))
    if not len(train) or not len(other):
        return None
    rows = csr_matrix(features, dtype=np.float64)
    member = csr_matrix(
        (np.ones(len(train)), (label[train], train)), shape=(classes, rows.shape[0])
    )
    told = np.asarray((_unit(rows[other]) @ _unit(member @ _unit(rows)).T).todense()).argmax(axis=1)
    count = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(count, (label[other], told), 1)
    own, meant = linear_sum_assignment(count, maximize=True)
    return Numbering(
        agreement=round(float(np.trace(count)) / len(other), 6),
        best=round(float(count[own, meant].sum()) / len(other), 6),
        meaning=tuple(meant.tolist()),
        largest=round(float(count.sum(axis=1).max()) / len(other), 6),
    )


def _unit(rows: csr_matrix) -> csr_matrix:
    """Return rows of length 1; those of zeros stay."""
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    return csr_matrix(diags(1 / np.where(length > 0, length, 1.0)) @ rows)
