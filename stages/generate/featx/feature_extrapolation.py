"""Move features away from those of partners: ``(1 + λ) x1 - λ x2``, brought back into domains.

What leaves its domain goes around it, as in the paper, or comes back as from a mirror. Features
that are not chosen keep their bits, and what is sparse stays sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from gsx._native import compiled
from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.stages.graphs.feature_variance import Domains, Floats
from gsx.stages.graphs.node_features import Features

loops = compiled("gsx.stages.generate.featx._feature_extrapolation")

_AT_ONCE = 1 << 15
"""Numbers in hand at once, few enough to stay in the cache of a processor."""
_LEAST_ROWS = 64
"""Rows in hand at once, however many features there are."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Features that are moved and whose domains are of one kind."""

    columns: Ints
    number: int
    """Its place in ``_RETURNS``."""
    ends: list[Floats]
    """Low, high and step of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Which features are moved, and how each comes back into its domain."""

    mask: npt.NDArray[np.bool_]
    domains: Domains
    mirror: bool
    """Whether values come back from the ends of a domain instead of going around it."""
    kinds: tuple[_Kind, ...]

    @classmethod
    def of(cls, mask: Array, domains: Domains, *, mirror: bool = False) -> Ways:
        """Tell the features of a mask ``[F]`` apart by the kinds of their domains."""
        if len(mask) != len(domains.low):
            raise StageError(
                f"the mask is for {len(mask)} features and the domains for {len(domains.low)}. "
                "Use the mask of this corpus."
            )
        grid = domains.step > 0
        unit = ~grid & (domains.low == 0) & (domains.high == 1)
        plain = [unit, ~grid & ~unit, grid]
        every = enumerate([~grid, grid], start=len(plain)) if mirror else enumerate(plain)
        kinds = []
        for number, has in every:
            columns = np.flatnonzero(mask & has)
            ends = [values[columns] for values in (domains.low, domains.high, domains.step)]
            if len(columns):
                kinds.append(_Kind(columns, number, ends))
        return cls(mask, domains, mirror, tuple(kinds))


def extrapolate(own: Features, partner: Features, strength: Array, ways: Ways) -> Features:
    """Return rows ``own`` ``[n, F]`` moved away from ``partner``, each by its ``strength`` λ.

    Where that is between -1 and 0 a row goes towards its partner instead.
    """
    every = np.arange(partner.shape[0] + 1)
    if not isinstance(own, csr_matrix):
        return extrapolate_runs(own, np.asarray(partner), every[:-1], strength, every, ways)[0]
    _check(own, partner, len(every) - 1, strength, every, ways)
    return _extrapolate_sparse(own, csr_matrix(partner), strength.astype(np.float64), ways)


def extrapolate_runs(
    own: Array, partners: Array, partner: Ints, strength: Array, ptr: Ints, ways: Ways
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return dense rows moved likewise, and of every run whether none of its numbers has changed.

    Rows ``ptr[i]:ptr[i + 1]`` are moved away from row ``partner[i]`` of ``partners``, all by the
    same ``strength[i]``.
    """
    _check(own, partners, len(partner), strength, ptr, ways)
    samples = _Samples(own, partners, partner, strength.astype(np.float64, copy=False), ptr)
    found = np.empty_like(own) if ways.mask.all() else own.copy()
    same = np.ones(len(partner), dtype=np.bool_)
    plain = all(
        rows.flags.c_contiguous and rows.dtype == np.float32 for rows in (own, partners, found)
    )
    fast = loops if plain else None
    for kind in ways.kinds:
        if fast is None:
            _move_by_numpy(samples, kind, found)
        else:
            _move(fast, samples, kind, found, same)
    return found, unchanged(own, found, ptr) if fast is None else same


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    own: Array
    partners: Array
    partner: Ints
    strength: Floats
    ptr: Ints

    def pieces(self, features: int) -> Iterator[_Samples]:
        """Cut so many features of all rows into pieces that stay in a cache."""
        size = max(_AT_ONCE // features, _LEAST_ROWS)
        starts = np.searchsorted(self.ptr, np.arange(0, self.ptr[-1], size)).tolist()
        for first, last in pairwise([*starts, len(self.partner)]):
            ptr, runs = self.ptr[first : last + 1], slice(first, last)
            yield _Samples(
                self.own[ptr[0] : ptr[-1]],
                self.partners,
                self.partner[runs],
                self.strength[runs],
                ptr - ptr[0],
            )


def unchanged(own: Array, moved: Array, ptr: Ints) -> npt.NDArray[np.bool_]:
    """Say of every run of rows ``ptr[i]:ptr[i + 1]`` whether none of its numbers has changed."""
    differ = np.zeros(len(moved) + 1, dtype=np.int64)
    np.cumsum((moved != own).any(axis=1), out=differ[1:])
    return np.asarray(differ[ptr[1:]] == differ[ptr[:-1]])


def _move(
    loops: ModuleType,
    samples: _Samples,
    kind: _Kind,
    found: Array,
    same: npt.NDArray[np.bool_],
) -> None:
    """Move some features, all of one kind; ``same`` becomes false where a run changes."""
    columns, number, ends = kind.columns, kind.number, kind.ends
    if len(columns) == found.shape[1]:
        s = samples
        loops.move(number, s.own, s.partners, s.partner, s.strength, s.ptr, *ends, found, same)
        return
    row = run = 0
    for s in samples.pieces(len(columns)):
        own, theirs = s.own.take(columns, axis=1), s.partners.take(s.partner, axis=0)
        moved, stay = np.empty_like(own), same[run : run + len(s.partner)]
        every = np.arange(len(s.partner))
        theirs = theirs.take(columns, axis=1)
        loops.move(number, own, theirs, every, s.strength, s.ptr, *ends, moved, stay)
        found[row : row + len(own), columns] = moved
        row, run = row + len(own), run + len(s.partner)


def _move_by_numpy(samples: _Samples, kind: _Kind, found: Array) -> None:
    """Do the same feature by feature: NumPy is slow where the last axis is short."""
    columns, returned = kind.columns, _RETURNS[kind.number]
    low, high, step = (values[:, None] for values in kind.ends)
    row, every = 0, len(columns) == found.shape[1]
    for s in samples.pieces(len(columns)):
        counts = np.diff(s.ptr)
        values = (s.own.T if every else s.own.T[columns]).astype(np.float64, order="C")
        theirs = s.partners[s.partner].T[columns].astype(np.float64)
        moved = np.repeat(theirs, counts, axis=1)
        np.subtract(values, moved, out=moved)
        moved *= np.repeat(s.strength, counts)
        moved += values
        found[row : row + len(s.own)].T[columns] = returned(moved, low, high, step)
        row += len(s.own)


def _extrapolate_sparse(
    own: csr_matrix, partner: csr_matrix, strength: Floats, ways: Ways
) -> csr_matrix:
    """Move what is stored in either row; where both are zero, zero stays."""
    mask, domains = ways.mask, ways.domains
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
    ends = (each[column] for each in (domains.low, domains.high, domains.step))
    moved.data = np.where(mask[column], wrap(moved.data, *ends, mirror=ways.mirror), moved.data)
    moved = moved.astype(own.dtype)
    moved.eliminate_zeros()
    moved.sort_indices()
    return moved


def wrap(values: Array, low: Array, high: Array, step: Array, *, mirror: bool = False) -> Floats:
    """Return values inside their domains, all ``[n]``; those that were inside keep their bits.

    On a grid a value goes to the nearest multiple of the step, then around; between two ends it
    goes around. With ``mirror`` it comes back from the end it passed.
    """
    found: Floats = np.array(values, dtype=np.float64)
    grid = step > 0
    on, out = np.flatnonzero(grid), np.flatnonzero(~grid & ((found < low) | (found > high)))
    back_on_grid, back = (_mirrored_on_grid, _mirrored) if mirror else (_on_grid, _around)
    found[on] = back_on_grid(found[on], low[on], high[on], step[on])
    found[out] = back(found[out], low[out], high[out])
    return found


def _in_unit(values: Floats, *_: Floats) -> Floats:
    """Take values around from 0 to 1, in place; what is exactly 1 stays."""
    whole, one = np.floor(values), (values == 1).view(np.int8)
    whole += np.negative(one, out=one)
    values -= whole
    return values


def _in_interval(values: Floats, low: Floats, high: Floats, _: Floats) -> Floats:
    """Take features ``[F, n]`` around their intervals ``[F, 1]``, in place."""
    # Numbers of values are taken and put faster than a mask, which a processor cannot foresee.
    outside = np.flatnonzero((values < low) | (values > high))
    feature, flat = outside // values.shape[1], values.reshape(-1)
    flat[outside] = _around(flat[outside], low[feature, 0], high[feature, 0])
    return values


def _around(values: Floats, low: Floats, high: Floats) -> Floats:
    found = _turned(values - low, np.where(high > low, high - low, 1.0))
    found += low
    return np.clip(found, low, high, out=found)


def _on_grid(values: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    turns = np.round((values - low) / step)
    found = _turned(turns, np.round((high - low) / step) + 1)
    found *= step
    found += low
    return np.clip(found, low, high, out=found)


def _mirrored(values: Floats, low: Floats, high: Floats, *_: Floats) -> Floats:
    inside = (values >= low) & (values <= high)
    found = _there_and_back(values - low, np.where(high > low, high - low, 1.0))
    found += low
    return np.where(inside, values, np.clip(found, low, high, out=found))


def _mirrored_on_grid(values: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    found = _there_and_back(np.round((values - low) / step), np.round((high - low) / step))
    found *= step
    found += low
    return np.clip(found, low, high, out=found)


def _there_and_back(values: Floats, length: Floats) -> Floats:
    """Bring values into ``[0, length]`` in place: up to it and down again, and so on."""
    found = _turned(values, 2 * length)
    return np.minimum(found, 2 * length - found, out=found)


def _turned(values: Floats, length: Floats) -> Floats:
    """Bring values into ``[0, length)`` in place, as a modulo does, only faster."""
    whole = values / length
    np.floor(whole, out=whole)
    whole *= length
    values -= whole
    return values


_RETURNS: tuple[Callable[..., Floats], ...] = (
    _in_unit,
    _in_interval,
    _on_grid,
    _mirrored,
    _mirrored_on_grid,
)
"""What brings values back, by kind of domain; the compiled loops count them alike."""


def _check(
    own: Features, partners: Features, count: int, strength: Array, ptr: Ints, ways: Ways
) -> None:
    if (int(ptr[-1]), partners.shape[1]) != own.shape or not (
        len(strength) == count == len(ptr) - 1
    ):
        raise StageError(
            f"{own.shape[0]} rows of {own.shape[1]} features cannot meet {count} of "
            f"{partners.shape[1]} with {len(strength)} strengths."
        )
    if len(ways.mask) != own.shape[1]:
        raise StageError(
            f"the mask is for {len(ways.mask)} features; rows have {own.shape[1]}. Use the mask of "
            "this corpus."
        )
