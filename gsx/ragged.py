"""Ragged arrays: rows of different lengths, stored as values and pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gsx._native import load_extension

native = load_extension("gsx._ragged")

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def pointers(counts: npt.ArrayLike) -> Ints:
    """Return the pointers ``[R + 1]`` of rows with lengths ``counts`` ``[R]``; the first is 0."""
    counts = np.asarray(counts)
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the concatenation of ``arange(start, start + count)`` over all rows.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ptr = pointers(counts)
    return np.repeat(starts - ptr[:-1], counts) + np.arange(ptr[-1], dtype=np.int64)


def row_indices(ptr: Ints) -> Ints:
    """Return the row index of every value, ``[L]``."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), np.diff(ptr))


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A ragged array: row ``i`` is ``values[ptr[i]:ptr[i + 1]]``."""

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
        """Return ``rows`` in the given order."""
        runs = Runs(self.ptr[rows], self.ptr[rows + 1] - self.ptr[rows])
        return Ragged(pointers(runs.counts), runs.take(self.values))

    def equals(self, other: Ragged) -> bool:
        """Return whether both arrays are equal; NaN equals NaN."""
        return np.array_equal(self.ptr, other.ptr) and arrays_equal(self.values, other.values)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of consecutive rows: run ``i`` is ``starts[i]:starts[i] + counts[i]``."""

    starts: Ints
    counts: Ints

    @cached_property
    def rows(self) -> Ints:
        """Row indices of all runs, concatenated."""
        return ranges(self.starts, self.counts)

    def take(self, values: Array) -> Array:
        """Return the rows of all runs of an array.

        >>> Runs(np.array([3, 0]), np.array([2, 1])).of(np.array([3, 1, 4, 1, 5])).tolist()
        [1, 5, 3]
        """
        if native is None or not values.size or not values.flags.c_contiguous:
            return values.take(self.rows, axis=0)
        gathered = np.empty((int(self.counts.sum()), *values.shape[1:]), dtype=values.dtype)
        native.gather(values, values.nbytes // len(values), self.starts, self.counts, gathered)
        return gathered

    def take_ragged(self, lists: Ragged) -> Ragged:
        """Return the rows of all runs of a ragged array, whose values form runs as well."""
        first = lists.ptr[self.starts]
        inner = Runs(first, lists.ptr[self.starts + self.counts] - first)
        return Ragged(pointers(self.take(np.diff(lists.ptr))), inner.take(lists.values))


def concat_ragged(parts: Sequence[Ragged]) -> Ragged:
    """Return the rows of all ``parts``, concatenated."""
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    return Ragged(pointers(counts), np.concatenate([part.values for part in parts]))


def encode_texts(texts: Sequence[str]) -> Ragged:
    """Return strings as a ragged array of UTF-8 bytes."""
    encoded = [text.encode() for text in texts]
    values = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return Ragged(pointers([len(text) for text in encoded]), values)


def decode_texts(rows: Ragged) -> list[str]:
    """Return the strings of a ragged array of UTF-8 bytes."""
    data = rows.values.tobytes()
    offsets = rows.ptr.tolist()
    return [data[start:stop].decode() for start, stop in pairwise(offsets)]


def arrays_equal(left: Array, right: Array) -> bool:
    """Return whether two arrays have equal dtype, shape and content; NaN equals NaN."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
