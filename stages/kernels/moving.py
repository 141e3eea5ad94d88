"""Move features away from those of partners: ``(1 + λ) x1 - λ x2``, brought back into domains.

What leaves its domain goes around it, as in the paper, or comes back as from a mirror. Features
that are not chosen keep their bits, and what is sparse stays sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.ragged import Array, Ints, rows_of
from gsx.stages.kernels.featx import Domains, Floats
from gsx.stages.kernels.rows import Features

_AT_ONCE = 1 << 15
"""Numbers in hand at once, few enough to stay in the cache of a processor."""
_LEAST_ROWS = 64
"""Rows in hand at once, however many features there are."""


def extrapolate(
    own: Features,
    partner: Features,
    strength: Array,
    mask: Array,
    domains: Domains,
    ptr: Ints | None = None,
    out: Array | None = None,
    *,
    mirror: bool = False,
) -> Features:
    """Return rows ``own`` ``[n, F]`` moved away from ``partner`` in the features of ``mask``.

    ``strength`` is λ of every partner; between -1 and 0 it moves towards it instead. Rows
    ``ptr[i]:ptr[i + 1]`` have partner ``i``; without pointers every row has one of its own. Dense
    rows are put into ``out`` where it is given, which may be ``own``. At the ends of a domain
    values go around it, or back with ``mirror``.
    """
    ptr = np.arange(partner.shape[0] + 1) if ptr is None else ptr
    _check(own, partner, strength, mask, domains, ptr)
    strength = strength.astype(np.float64, copy=False)
    if isinstance(own, csr_matrix):
        of = rows_of(ptr)
        theirs = csr_matrix(partner)[of]
        return _extrapolate_sparse(own, theirs, strength[of], mask, domains, mirror=mirror)
    found = np.empty_like(own) if out is None else out
    theirs = np.asarray(partner)
    _extrapolate_dense(own, theirs, strength, mask, domains, ptr, found, mirror=mirror)
    return found


def _extrapolate_dense(
    own: Array,
    partner: Array,
    strength: Floats,
    mask: Array,
    domains: Domains,
    ptr: Ints,
    found: Array,
    *,
    mirror: bool,
) -> None:
    if not mask.all() and found is not own:
        found[...] = own
    counts_of = np.diff(ptr)
    for columns, returned in _by_kind(mask, domains, mirror=mirror):
        ends = [values[columns, None] for values in (domains.low, domains.high, domains.step)]
        # Feature by feature: NumPy is slow where the last axis, that of a few features, is short.
        theirs = partner.T[columns].astype(np.float64, order="C")
        every = len(columns) == own.shape[1]
        for first, last in _pieces(ptr, max(_AT_ONCE // len(columns), _LEAST_ROWS)):
            rows, counts = slice(ptr[first], ptr[last]), counts_of[first:last]
            part = own[rows].T if every else own[rows].T[columns]
            values = part.astype(np.float64, order="C")
            moved = np.repeat(theirs[:, first:last], counts, axis=1)
            np.subtract(values, moved, out=moved)
            moved *= np.repeat(strength[first:last], counts)
            moved += values
            found[rows].T[columns] = returned(moved, *ends)


def _by_kind(
    mask: Array, domains: Domains, *, mirror: bool
) -> Iterator[tuple[Ints, Callable[..., Floats]]]:
    """Yield the chosen features whose domains are of one kind, and what brings them back."""
    grid = domains.step > 0
    unit = ~grid & (domains.low == 0) & (domains.high == 1)
    kinds: list[tuple[Array, Callable[..., Floats]]] = (
        [(~grid, _mirrored), (grid, _mirrored_on_grid)]
        if mirror
        else [(unit, _in_unit), (~grid & ~unit, _in_interval), (grid, _on_grid)]
    )
    for kind, returned in kinds:
        columns = np.flatnonzero(mask & kind)
        if len(columns):
            yield columns, returned


def _pieces(ptr: Ints, size: int) -> Iterator[tuple[int, int]]:
    """Cut partners into runs of about so many rows."""
    starts = np.searchsorted(ptr, np.arange(0, ptr[-1], size)).tolist()
    return pairwise([*starts, len(ptr) - 1])


def _extrapolate_sparse(
    own: csr_matrix,
    partner: csr_matrix,
    strength: Floats,
    mask: Array,
    domains: Domains,
    *,
    mirror: bool,
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
    ends = (each[column] for each in (domains.low, domains.high, domains.step))
    moved.data = np.where(mask[column], wrap(moved.data, *ends, mirror=mirror), moved.data)
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


def _check(
    own: Features, partner: Features, strength: Array, mask: Array, domains: Domains, ptr: Ints
) -> None:
    if (int(ptr[-1]), partner.shape[1]) != own.shape or not (
        len(strength) == partner.shape[0] == len(ptr) - 1
    ):
        raise StageError(
            f"{own.shape[0]} rows of {own.shape[1]} features cannot meet {partner.shape[0]} of "
            f"{partner.shape[1]} with {len(strength)} strengths."
        )
    if len(mask) != own.shape[1] or len(domains.low) != own.shape[1]:
        raise StageError(
            f"the mask is for {len(mask)} features and the domains for {len(domains.low)}; rows "
            f"have {own.shape[1]}. Use the mask of this corpus."
        )
