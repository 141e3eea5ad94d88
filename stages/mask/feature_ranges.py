"""Parse feature ranges as users write them: ``0..1``, ``3=0..255:1``, ``year=0..9``, ``+50%``.

Configs and manifests store them as ``feature_ranges``; the option is ``--feature-range``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats

COLOR_DATASETS = ("cbas-color", "cmnist-color", "fsmotif-base-color", "fsmotif-size-color")
"""Datasets whose features are colors."""
DATASET_RANGES: Mapping[str, tuple[str, ...]] = dict.fromkeys(COLOR_DATASETS, ("0..1",))
"""Feature ranges of datasets whose training data has only some of the possible values."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    r"(?:(?:(?P<first>\d+)(?:-(?P<last>\d+))?|(?P<name>.+))=)?"
    rf"(?:(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})(?::(?P<step>{_NUMBER}))?|"
    r"\+(?P<percent>\d{1,6}(?:\.\d+)?)%)"
)


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """A range, and the features it applies to."""

    first: int
    last: int | None
    """None for all features."""
    low: float
    high: float
    step: float
    name: str | None = None
    """Name of the feature, in place of its number."""
    wider: float | None = None
    """Fraction of the width of the training range that is added at both ends, in place of ends."""


def parse_feature_range(text: str) -> RangeSpec:
    """Parse ``[FEATURE[-FEATURE]|NAME=]LOW..HIGH[:STEP]`` or ``[…=]+PERCENT%``.

    STEP is the spacing of values. PERCENT widens the range of the training data.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"`{text}` is not a feature range. Write LOW..HIGH, LOW..HIGH:STEP, +PERCENT% or "
            "FEATURE=LOW..HIGH, such as 0..1, 0..255:1, +50% or 0-2=0..1."
        )
    first = int(match["first"] or 0)
    last = None if match["first"] is None else int(match["last"] or first)
    if last is not None and last < first:
        raise UsageError(f"feature range `{text}`: the first feature must not exceed the last")
    if match["percent"] is not None:
        wider = float(match["percent"]) / 100
        return RangeSpec(first, last, 0, 0, 0, name=match["name"], wider=wider)
    low, high, step = (float(match[name] or 0) for name in ("low", "high", "step"))
    if not low < high:
        raise UsageError(f"feature range `{text}`: LOW must be less than HIGH")
    num_steps = (high - low) / step if step else 1.0
    if step < 0 or not math.isclose(num_steps, round(num_steps), rel_tol=1e-9):
        raise UsageError(f"feature range `{text}`: STEP must divide HIGH - LOW")
    return RangeSpec(first, last, low, high, step, name=match["name"])


def dataset_ranges(inferred: FeatureRanges, name: str) -> tuple[str, ...]:
    """Return the feature ranges of a dataset by name, if the inferred ranges are within them.

    User data may have the name of a benchmark and other values.
    """
    texts = DATASET_RANGES.get(name, ())
    specs = (parse_feature_range(text) for text in texts)
    is_inside = all(
        inferred.low.min() >= spec.low and inferred.high.max() <= spec.high for spec in specs
    )
    return texts if is_inside else ()


def override_ranges(
    inferred: FeatureRanges, texts: Sequence[str], name: str, features: Sequence[str] = ()
) -> FeatureRanges:
    """Replace inferred feature ranges by those in ``texts``; reject ranges that exclude data.

    ``features`` are the names of all features, if they have names.
    """
    low, high, step = inferred.low.copy(), inferred.high.copy(), inferred.step.copy()
    width = len(low)
    for text in texts:
        spec = parse_feature_range(text)
        chosen = _chosen(spec, text, name, width, features)
        if spec.wider is not None:
            ends = _widened(inferred, chosen, spec.wider)
            low[chosen], high[chosen] = ends
            continue
        # Features are stored in single precision, where 0.3 is slightly larger than in double.
        low_single, high_single = (float(np.float32(end)) for end in (spec.low, spec.high))
        outside = np.flatnonzero(
            (inferred.low[chosen] < min(spec.low, low_single))
            | (inferred.high[chosen] > max(spec.high, high_single))
        )
        if len(outside):
            feature = chosen.start + int(outside[0])
            raise StageError(
                f"feature range `{text}`: training values of feature {feature} of {name} range "
                f"from {inferred.low[feature]:g} to {inferred.high[feature]:g}. Widen the range, "
                "or omit it."
            )
        _require_grid(inferred, spec, chosen, text, name)
        low[chosen] = np.minimum(inferred.low[chosen], spec.low)
        high[chosen] = np.maximum(inferred.high[chosen], spec.high)
        step[chosen] = spec.step
    return FeatureRanges(low, high, step)


def _chosen(spec: RangeSpec, text: str, corpus: str, width: int, features: Sequence[str]) -> slice:
    """Return the features of a range; reject numbers and names that do not exist."""
    if spec.name is not None:
        if spec.name not in features:
            known = (
                f"its features are {', '.join(features[:20])}"
                if features
                else (f"its {width} features have no names and are numbered from 0")
            )
            raise UsageError(
                f"feature range `{text}`: {corpus} has no feature `{spec.name}`; {known}."
            )
        first = list(features).index(spec.name)
        return slice(first, first + 1)
    last = width - 1 if spec.last is None else spec.last
    if last >= width:
        raise UsageError(
            f"feature range `{text}`: {corpus} has no feature {last}. Its {width} features are "
            "numbered from 0."
        )
    return slice(spec.first, last + 1)


def _widened(ranges: FeatureRanges, chosen: slice, wider: float) -> tuple[Floats, Floats]:
    """Return the ends of ranges that are wider by a fraction of their width at both ends.

    Constant features and features with two values keep their range; a grid grows by whole steps.
    """
    low, high, step = ranges.low[chosen], ranges.high[chosen], ranges.step[chosen]
    margin = wider * (high - low)
    is_grid = step > 0
    margin = np.where(is_grid, np.floor(margin / np.where(is_grid, step, 1)) * step, margin)
    margin = np.where(is_grid & (high - low == step), 0.0, margin)
    return low - margin, high + margin


def _require_grid(
    inferred: FeatureRanges, spec: RangeSpec, chosen: slice, text: str, name: str
) -> None:
    """Reject a step if training values are not multiples of it, as far as is known."""
    if not spec.step:
        return
    ends = np.stack([inferred.low[chosen], inferred.high[chosen]])
    steps = (ends - spec.low) / spec.step
    is_continuous = (inferred.step[chosen] == 0) & (inferred.high[chosen] > inferred.low[chosen])
    is_off_grid = ~np.isclose(steps, np.round(steps), rtol=1e-6, atol=0)
    excluded = np.flatnonzero(is_off_grid.any(axis=0) | is_continuous)
    if len(excluded):
        feature = chosen.start + int(excluded[0])
        raise StageError(
            f"feature range `{text}`: feature {feature} of {name} has training values between "
            "the steps. Omit STEP."
        )
