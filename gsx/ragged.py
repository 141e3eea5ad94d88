"""Lists of different lengths held as one array of values and one array of pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gsx._native import compiled

loops = compiled("gsx._ragged")

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def pointers(counts: npt.ArrayLike) -> Ints:
    """Turn lengths ``[R]`` into pointers ``[R + 1]`` that start at 0."""
    counts = np.asarray(counts)
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Concatenate ``arange(start, start + count)`` over all rows.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ptr = pointers(counts)
    return np.repeat(starts - ptr[:-1], counts) + np.arange(ptr[-1], dtype=np.int64)


def rows_of(ptr: Ints) -> Ints:
    """Return, for every value, the row that holds it."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), np.diff(ptr))


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """One list per row: row ``i`` is ``values[ptr[i]:ptr[i + 1]]``."""

    ptr: Ints
    """``[R + 1]`` pointers into ``values``, the first 0, the last ``len(values)``."""
    values: Array
    """``[L]`` or ``[L, W]``."""

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def slice(self, start: int, stop: int) -> Ragged:
        """Return rows ``start:stop`` without copying values."""
        ptr = self.ptr[start : stop + 1]
        return Ragged(ptr - ptr[0], self.values[ptr[0] : ptr[-1]])

    def take(self, rows: Ints) -> Ragged:
        """Return the given rows in the given order."""
        runs = Runs(self.ptr[rows], self.ptr[rows + 1] - self.ptr[rows])
        return Ragged(pointers(runs.counts), runs.of(self.values))

    def equals(self, other: Ragged) -> bool:
        """Say whether both hold the same lists; NaN equals NaN."""
        return np.array_equal(self.ptr, other.ptr) and same_array(self.values, other.values)


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows that follow each other: run ``i`` is ``starts[i]:starts[i] + counts[i]``."""

    starts: Ints
    counts: Ints

    @cached_property
    def rows(self) -> Ints:
        """The rows of all runs, one after the other."""
        return ranges(self.starts, self.counts)

    def of(self, values: Array) -> Array:
        """Return the rows of an array.

        >>> Runs(np.array([3, 0]), np.array([2, 1])).of(np.array([3, 1, 4, 1, 5])).tolist()
        [1, 5, 3]
        """
        if loops is None or not values.size or not values.flags.c_contiguous:
            return values.take(self.rows, axis=0)
        found = np.empty((int(self.counts.sum()), *values.shape[1:]), dtype=values.dtype)
        loops.gather(values, values.nbytes // len(values), self.starts, self.counts, found)
        return found

    def of_lists(self, lists: Ragged) -> Ragged:
        """Return the rows of lists: those of a run follow each other in the values, too."""
        first = lists.ptr[self.starts]
        inner = Runs(first, lists.ptr[self.starts + self.counts] - first)
        return Ragged(pointers(self.of(np.diff(lists.ptr))), inner.of(lists.values))


def concat_ragged(parts: Sequence[Ragged]) -> Ragged:
    """Stack the rows of ``parts``."""
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    return Ragged(pointers(counts), np.concatenate([part.values for part in parts]))


def text_rows(texts: Sequence[str]) -> Ragged:
    """Hold strings as lists of UTF-8 bytes."""
    encoded = [text.encode() for text in texts]
    values = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return Ragged(pointers([len(text) for text in encoded]), values)


def texts_of(rows: Ragged) -> list[str]:
    """Return the strings that ``text_rows`` held."""
    data = rows.values.tobytes()
    ends = rows.ptr.tolist()
    return [data[a:b].decode() for a, b in pairwise(ends)]


def same_array(left: Array, right: Array) -> bool:
    """Say whether two arrays have one dtype, shape and content; NaN equals NaN."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
