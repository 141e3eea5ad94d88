"""Masks given by hand: names or numbers of features, such as ``green,3-5``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.ragged import Array
from gsx.stages.graphs.feature_variance import variance_scores
from gsx.stages.mask.feature_statistics import FeatureStatistics
from gsx.stages.mask.mask_search import LearnedMask

_NUMBERS = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+))?")


def select_features(texts: Sequence[str], names: Sequence[str], corpus: str) -> Array:
    """Return which features ``[F]`` are selected by names, numbers or ranges of numbers."""
    selected = np.zeros(len(names), dtype=np.bool_)
    for text in texts:
        is_named = np.array([name == text for name in names])
        match = _NUMBERS.fullmatch(text)
        if is_named.any():
            selected |= is_named
        elif match is not None:
            first = int(match["first"])
            last = int(match["last"] or first)
            if not first <= last < len(names):
                raise UsageError(
                    f"features `{text}`: {corpus} has no such features. Its {len(names)} features "
                    "are numbered from 0."
                )
            selected[first : last + 1] = True
        else:
            raise UsageError(
                f"features `{text}`: {corpus} has no feature of this name. "
                f"{did_you_mean(text, names)} Features may also be numbers from 0 to "
                f"{len(names) - 1}."
            )
    return selected


def given_mask(statistics: FeatureStatistics, selected: Array, names: Sequence[str]) -> LearnedMask:
    """Return a mask of the selected features; scores are those of k1 = k2 = 1."""
    constant = np.flatnonzero(selected & (statistics.std == 0))
    if len(constant):
        raise StageError(
            f"feature {names[constant[0]]} is constant over the training data, so it cannot be "
            "extrapolated. Remove it from the features."
        )
    score = variance_scores(statistics.within_labels, statistics.within_environments, 1.0, 1.0)
    empty: list[dict[str, Any]] = []
    return LearnedMask(
        k1=None, k2=None, threshold=None, score=score, mask=selected, history=empty, trials=empty
    )
