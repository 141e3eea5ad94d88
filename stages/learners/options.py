"""Options of training that only some learners read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gsx.errors import UsageError
from gsx.stages.learners.kinds import KINDS

LIMITS: Mapping[str, tuple[float, float, str]] = {
    "causal_ratio": (0, 1, "lie between 0 and 1"),
    "hinge": (-math.ulp(0), math.inf, "not be negative"),
    "inferred_envs": (1, math.inf, "be at least 2"),
    "generators": (1, math.inf, "be at least 2"),
    "kl_weight": (-math.ulp(0), math.inf, "not be negative"),
}
"""Bounds, themselves left out, of every such option, and how to say them."""


def filled(learner: str, given: Mapping[str, float | None]) -> dict[str, float | None]:
    """Fill in what is left out of the options a learner reads; refuse those it does not."""
    own = KINDS[learner].fills
    found: dict[str, float | None] = {}
    for name, value in given.items():
        if value is not None and name not in own:
            readers = ", ".join(f"`{other}`" for other, kind in KINDS.items() if name in kind.fills)
            raise UsageError(
                f"{name} is for {readers}; `{learner}` does not read it. Leave it out."
            )
        found[name] = own.get(name) if value is None else value
        _check(name, found[name])
    return found


def _check(name: str, value: float | None) -> None:
    low, high, words = LIMITS[name]
    if value is not None and not low < value < high:
        raise UsageError(f"{name} must {words}; got {value}")
