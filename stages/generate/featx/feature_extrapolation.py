"""Feature extrapolation: ``(1 + λ) x1 - λ x2``, wrapped into feature ranges.

Values beyond their range wrap around, as in the paper, or are reflected at its ends. Features that
are not selected are bit-identical, and sparse features stay sparse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from gsx._native import load_extension
from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats
from gsx.stages.graphs.feature_wrapping import WRAP_FUNCTIONS, wrap
from gsx.stages.graphs.node_features import Features

loops = load_extension("gsx.stages.generate.featx._feature_extrapolation")
"""The compiled extension, or None."""

_CHUNK_VALUES = 1 << 15
"""Values processed at once; they fit in the processor cache."""
_MIN_CHUNK_ROWS = 64
"""Rows processed at once, for any number of features."""


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureGroup:
    """Selected features that wrap in the same way."""

    columns: Ints
    number: int
    """Index of the function in ``WRAP_FUNCTIONS``."""
    bounds: list[Floats]
    """Low, high and step of each feature."""


@dataclass(frozen=True, slots=True, eq=False)
class WrapAround:
    """Selected features, their ranges, and how values beyond a range wrap into it."""

    mask: npt.NDArray[np.bool_]
    """``[F]`` selected features."""
    ranges: FeatureRanges
    mirror: bool
    """Whether values are reflected at the ends of a range instead of wrapping around."""
    groups: tuple[_FeatureGroup, ...]

    @classmethod
    def from_mask(cls, mask: Array, ranges: FeatureRanges, *, mirror: bool = False) -> WrapAround:
        """Group the features of a mask ``[F]`` by the kind of their range."""
        if len(mask) != len(ranges.low):
            raise StageError(
                f"the mask has {len(mask)} features and the feature ranges have "
                f"{len(ranges.low)}. Use the mask of this corpus."
            )
        grid = ranges.step > 0
        unit = ~grid & (ranges.low == 0) & (ranges.high == 1)
        wrapping = [unit, ~grid & ~unit, grid]
        kinds = enumerate([~grid, grid], start=len(wrapping)) if mirror else enumerate(wrapping)
        groups = []
        for number, is_kind in kinds:
            columns = np.flatnonzero(mask & is_kind)
            bounds = [values[columns] for values in (ranges.low, ranges.high, ranges.step)]
            if len(columns):
                groups.append(_FeatureGroup(columns, number, bounds))
        return cls(mask, ranges, mirror, tuple(groups))


def extrapolate(
    own: Features, partner: Features, strength: Array, wrap_around: WrapAround
) -> Features:
    """Return ``(1 + λ) own - λ partner`` of the selected features, row by row, ``[n, F]``.

    ``strength`` ``[n]`` is λ. Between -1 and 0 it interpolates towards the partner.
    """
    ptr = np.arange(partner.shape[0] + 1)
    if not isinstance(own, csr_matrix):
        return extrapolate_runs(own, np.asarray(partner), ptr[:-1], strength, ptr, wrap_around)[0]
    _check_shapes(own, partner, len(ptr) - 1, strength, ptr, wrap_around)
    return _extrapolate_sparse(own, csr_matrix(partner), strength.astype(np.float64), wrap_around)


def extrapolate_runs(
    own: Array,
    partners: Array,
    partner: Ints,
    strength: Array,
    ptr: Ints,
    wrap_around: WrapAround,
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Extrapolate runs of dense rows, each run with one partner row and one strength.

    Run i is ``own[ptr[i]:ptr[i + 1]]``; its partner is row ``partner[i]`` of ``partners`` and its
    strength ``strength[i]``. Returns all rows, and for every run whether it is unchanged.
    """
    _check_shapes(own, partners, len(partner), strength, ptr, wrap_around)
    runs = _Runs(own, partners, partner, strength.astype(np.float64, copy=False), ptr)
    result = np.empty_like(own) if wrap_around.mask.all() else own.copy()
    same = np.ones(len(partner), dtype=np.bool_)
    is_supported = all(
        rows.flags.c_contiguous and rows.dtype == np.float32 for rows in (own, partners, result)
    )
    native = loops if is_supported else None
    for group in wrap_around.groups:
        if native is None:
            _extrapolate_numpy(runs, group, result)
        else:
            _extrapolate_native(native, runs, group, result, same)
    return result, unchanged_runs(own, result, ptr) if native is None else same


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Arguments of ``extrapolate_runs``."""

    own: Array
    partners: Array
    partner: Ints
    strength: Floats
    ptr: Ints

    def chunks(self, features: int) -> Iterator[_Runs]:
        """Split the runs so that ``features`` columns of a chunk fit in the processor cache."""
        size = max(_CHUNK_VALUES // features, _MIN_CHUNK_ROWS)
        starts = np.searchsorted(self.ptr, np.arange(0, self.ptr[-1], size)).tolist()
        for first, last in pairwise([*starts, len(self.partner)]):
            ptr, runs = self.ptr[first : last + 1], slice(first, last)
            yield _Runs(
                self.own[ptr[0] : ptr[-1]],
                self.partners,
                self.partner[runs],
                self.strength[runs],
                ptr - ptr[0],
            )


def unchanged_runs(own: Array, result: Array, ptr: Ints) -> npt.NDArray[np.bool_]:
    """Return for every run of rows ``ptr[i]:ptr[i + 1]`` whether all its values are equal."""
    changed = np.zeros(len(result) + 1, dtype=np.int64)
    np.cumsum((result != own).any(axis=1), out=changed[1:])
    return np.asarray(changed[ptr[1:]] == changed[ptr[:-1]])


def _extrapolate_native(
    native: ModuleType,
    runs: _Runs,
    group: _FeatureGroup,
    result: Array,
    same: npt.NDArray[np.bool_],
) -> None:
    """Extrapolate a feature group in place; ``same`` becomes false for runs that change."""
    columns, number, bounds = group.columns, group.number, group.bounds
    if len(columns) == result.shape[1]:
        r = runs
        native.move(number, r.own, r.partners, r.partner, r.strength, r.ptr, *bounds, result, same)
        return
    row = run = 0
    for r in runs.chunks(len(columns)):
        own, partners = r.own.take(columns, axis=1), r.partners.take(r.partner, axis=0)
        extrapolated, chunk_same = np.empty_like(own), same[run : run + len(r.partner)]
        partner = np.arange(len(r.partner))
        partners = partners.take(columns, axis=1)
        native.move(
            number, own, partners, partner, r.strength, r.ptr, *bounds, extrapolated, chunk_same
        )
        result[row : row + len(own), columns] = extrapolated
        row, run = row + len(own), run + len(r.partner)


def _extrapolate_numpy(runs: _Runs, group: _FeatureGroup, result: Array) -> None:
    """Extrapolate a feature group in place.

    Works on transposed arrays, because NumPy is slow if the last axis is short.
    """
    columns, wrap_values = group.columns, WRAP_FUNCTIONS[group.number]
    low, high, step = (values[:, None] for values in group.bounds)
    row, all_columns = 0, len(columns) == result.shape[1]
    for r in runs.chunks(len(columns)):
        counts = np.diff(r.ptr)
        values = (r.own.T if all_columns else r.own.T[columns]).astype(np.float64, order="C")
        partner_values = r.partners[r.partner].T[columns].astype(np.float64)
        extrapolated = np.repeat(partner_values, counts, axis=1)
        np.subtract(values, extrapolated, out=extrapolated)
        extrapolated *= np.repeat(r.strength, counts)
        extrapolated += values
        result[row : row + len(r.own)].T[columns] = wrap_values(extrapolated, low, high, step)
        row += len(r.own)


def _extrapolate_sparse(
    own: csr_matrix, partner: csr_matrix, strength: Floats, wrap_around: WrapAround
) -> csr_matrix:
    """Extrapolate values that are stored in either row; values that are 0 in both stay 0."""
    mask, ranges = wrap_around.mask, wrap_around.ranges
    without_zero = np.flatnonzero(mask & ((ranges.low > 0) | (ranges.high < 0)))
    if len(without_zero):
        feature = without_zero[0]
        raise StageError(
            f"feature {feature} is sparse, and its range {ranges.low[feature]:g} to "
            f"{ranges.high[feature]:g} does not contain 0. Set a range that does with "
            "`--feature-range`."
        )
    difference = csr_matrix(own.astype(np.float64) - partner.astype(np.float64))
    row = np.repeat(np.arange(own.shape[0]), np.diff(difference.indptr))
    column = difference.indices
    selected = mask[column]
    step = csr_matrix(
        (strength[row[selected]] * difference.data[selected], (row[selected], column[selected])),
        shape=own.shape,
    )
    result = csr_matrix(own.astype(np.float64) + step)
    column = result.indices
    bounds = (values[column] for values in (ranges.low, ranges.high, ranges.step))
    wrapped = wrap(result.data, *bounds, mirror=wrap_around.mirror)
    result.data = np.where(mask[column], wrapped, result.data)
    result = result.astype(own.dtype)
    result.eliminate_zeros()
    result.sort_indices()
    return result


def _check_shapes(
    own: Features,
    partners: Features,
    count: int,
    strength: Array,
    ptr: Ints,
    wrap_around: WrapAround,
) -> None:
    if (int(ptr[-1]), partners.shape[1]) != own.shape or not (
        len(strength) == count == len(ptr) - 1
    ):
        raise StageError(
            f"shapes do not match: {own.shape[0]} rows of {own.shape[1]} features, {count} "
            f"partners of {partners.shape[1]} features, {len(strength)} strengths."
        )
    if len(wrap_around.mask) != own.shape[1]:
        raise StageError(
            f"the mask has {len(wrap_around.mask)} features; rows have {own.shape[1]}. Use the "
            "mask of this corpus."
        )
