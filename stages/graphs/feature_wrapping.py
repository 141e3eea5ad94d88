"""Wrap feature values into their ranges: around, as the paper's modulo does, or by reflection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gsx.ragged import Array
from gsx.stages.graphs.feature_variance import Floats


def wrap(values: Array, low: Array, high: Array, step: Array, *, mirror: bool = False) -> Floats:
    """Return values wrapped into their ranges, all ``[n]``; values inside are unchanged.

    With a positive step a value is rounded to the nearest multiple of the step, then wrapped. With
    ``mirror`` it is reflected at the end that it exceeds.
    """
    wrapped: Floats = np.array(values, dtype=np.float64)
    grid = step > 0
    on_grid = np.flatnonzero(grid)
    outside = np.flatnonzero(~grid & ((wrapped < low) | (wrapped > high)))
    on_grids, in_intervals = (
        (reflect_grid, reflect_interval) if mirror else (wrap_grid, _wrap_interval)
    )
    wrapped[on_grid] = on_grids(wrapped[on_grid], low[on_grid], high[on_grid], step[on_grid])
    wrapped[outside] = in_intervals(wrapped[outside], low[outside], high[outside])
    return wrapped


def wrap_unit(values: Floats, *_: Floats) -> Floats:
    """Wrap values into [0, 1] in place; exactly 1 stays 1."""
    whole, one = np.floor(values), (values == 1).view(np.int8)
    whole += np.negative(one, out=one)
    values -= whole
    return values


def wrap_intervals(values: Floats, low: Floats, high: Floats, _: Floats) -> Floats:
    """Wrap features ``[F, n]`` into their intervals ``[F, 1]`` in place."""
    # Indices are faster than a boolean mask, which causes branch mispredictions.
    outside = np.flatnonzero((values < low) | (values > high))
    feature, flat = outside // values.shape[1], values.reshape(-1)
    flat[outside] = _wrap_interval(flat[outside], low[feature, 0], high[feature, 0])
    return values


def _wrap_interval(values: Floats, low: Floats, high: Floats) -> Floats:
    wrapped = _modulo(values - low, np.where(high > low, high - low, 1.0))
    wrapped += low
    return np.clip(wrapped, low, high, out=wrapped)


def wrap_grid(values: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    """Round values to their grid, and wrap them into their range."""
    steps = np.round((values - low) / step)
    wrapped = _modulo(steps, np.round((high - low) / step) + 1)
    wrapped *= step
    wrapped += low
    return np.clip(wrapped, low, high, out=wrapped)


def reflect_interval(values: Floats, low: Floats, high: Floats, *_: Floats) -> Floats:
    """Reflect values at the ends of their intervals."""
    inside = (values >= low) & (values <= high)
    reflected = _reflect(values - low, np.where(high > low, high - low, 1.0))
    reflected += low
    return np.where(inside, values, np.clip(reflected, low, high, out=reflected))


def reflect_grid(values: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    """Round values to their grid, and reflect them at the ends of their range."""
    reflected = _reflect(np.round((values - low) / step), np.round((high - low) / step))
    reflected *= step
    reflected += low
    return np.clip(reflected, low, high, out=reflected)


def _reflect(values: Floats, length: Floats) -> Floats:
    """Reflect values into ``[0, length]`` in place (triangle wave of period ``2 * length``)."""
    remainder = _modulo(values, 2 * length)
    return np.minimum(remainder, 2 * length - remainder, out=remainder)


def _modulo(values: Floats, length: Floats) -> Floats:
    """Return ``values % length`` in place; faster than ``np.mod``."""
    whole = values / length
    np.floor(whole, out=whole)
    whole *= length
    values -= whole
    return values


WRAP_FUNCTIONS: tuple[Callable[..., Floats], ...] = (
    wrap_unit,
    wrap_intervals,
    wrap_grid,
    reflect_interval,
    reflect_grid,
)
"""Functions by kind of range; the compiled extension of FeatX uses the same numbers."""
