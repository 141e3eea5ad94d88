"""Domains of features as a user writes them: ``0..1``, ``3=0..255:1``, ``0-2=-1..1``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.graphs.feature_variance import FeatureRanges

COLOR_DATASETS = ("cbas-color", "cmnist-color", "fsmotif-base-color", "fsmotif-size-color")
"""Datasets whose features are colors."""
DATASET_RANGES: Mapping[str, tuple[str, ...]] = dict.fromkeys(COLOR_DATASETS, ("0..1",))
"""What is known of a dataset: its training shows some colors, which may take two values each."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    rf"(?:(?P<first>\d+)(?:-(?P<last>\d+))?=)?(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})"
    rf"(?::(?P<step>{_NUMBER}))?"
)


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """A domain, and the features it is for."""

    first: int
    last: int | None
    """None for all features."""
    low: float
    high: float
    step: float


def parse_feature_range(text: str) -> RangeSpec:
    """Read ``[FEATURE[-FEATURE]=]LOW..HIGH[:STEP]``; a step makes a grid, 1 of whole numbers."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"a domain is LOW..HIGH, LOW..HIGH:STEP or FEATURE=LOW..HIGH, such as 0..1, 0..255:1 "
            f"or 0-2=0..1; got `{text}`"
        )
    low, high, step = (float(found[name] or 0) for name in ("low", "high", "step"))
    if not low < high:
        raise UsageError(f"the domain `{text}` must go from a lower to a higher value")
    places = (high - low) / step if step else 1.0
    if step < 0 or not math.isclose(places, round(places), rel_tol=1e-9):
        raise UsageError(f"the step of the domain `{text}` must divide its length")
    first = int(found["first"] or 0)
    last = None if found["first"] is None else int(found["last"] or first)
    if last is not None and last < first:
        raise UsageError(f"the features of the domain `{text}` must count upwards")
    return RangeSpec(first, last, low, high, step)


def dataset_ranges(inferred: FeatureRanges, name: str) -> tuple[str, ...]:
    """Return the domains that a dataset of this name has, if its values lie in them."""
    found = DATASET_RANGES.get(name, ())
    every = (parse_feature_range(text) for text in found)
    inside = all(
        inferred.low.min() >= domain.low and inferred.high.max() <= domain.high for domain in every
    )
    return found if inside else ()


def override_ranges(inferred: FeatureRanges, given: Sequence[str], name: str) -> FeatureRanges:
    """Replace inferred domains by those given; refuse one that excludes the data."""
    low, high, step = inferred.low.copy(), inferred.high.copy(), inferred.step.copy()
    width = len(low)
    for text in given:
        domain = parse_feature_range(text)
        last = width - 1 if domain.last is None else domain.last
        if last >= width:
            raise UsageError(f"the domain `{text}` is for feature {last}; {name} has {width}")
        chosen = slice(domain.first, last + 1)
        # Features are stored in single precision, where 0.3 is a little more than it is here.
        lowest, highest = (float(np.float32(end)) for end in (domain.low, domain.high))
        off = np.flatnonzero(
            (inferred.low[chosen] < min(domain.low, lowest))
            | (inferred.high[chosen] > max(domain.high, highest))
        )
        if len(off):
            feature = domain.first + int(off[0])
            raise StageError(
                f"the domain `{text}` excludes training values of feature {feature} of {name}, "
                f"which go from {inferred.low[feature]:g} to {inferred.high[feature]:g}. "
                "Widen it, or leave it out."
            )
        _require_grid(inferred, domain, chosen, text, name)
        low[chosen] = np.minimum(inferred.low[chosen], domain.low)
        high[chosen] = np.maximum(inferred.high[chosen], domain.high)
        step[chosen] = domain.step
    return FeatureRanges(low, high, step)


def _require_grid(
    inferred: FeatureRanges, domain: RangeSpec, chosen: slice, text: str, name: str
) -> None:
    """Refuse steps that training values do not lie on, as far as their own grid says."""
    if not domain.step:
        return
    ends = np.stack([inferred.low[chosen], inferred.high[chosen]])
    turns = (ends - domain.low) / domain.step
    between = (inferred.step[chosen] == 0) & (inferred.high[chosen] > inferred.low[chosen])
    beside = ~np.isclose(turns, np.round(turns), rtol=1e-6, atol=0)
    off = np.flatnonzero(beside.any(axis=0) | between)
    if len(off):
        feature = domain.first + int(off[0])
        raise StageError(
            f"the domain `{text}` excludes training values of feature {feature} of {name} that "
            "lie between its steps. Leave the step out."
        )
