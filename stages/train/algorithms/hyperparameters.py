"""Options of training whose value, when left out, depends on the learner."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gsx.errors import UsageError
from gsx.stages.train.algorithms.catalog import KINDS


def _share(value: float) -> bool:
    return 0 < value < 1


def _weight(value: float) -> bool:
    return 0 <= value < math.inf


def _several(value: float) -> bool:
    return value >= 2


LIMITS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "causal_ratio": (_share, "lie between 0 and 1"),
    "hinge": (_weight, "not be negative"),
    "inferred_envs": (_several, "be at least 2"),
    "generators": (_several, "be at least 2"),
    "kl_weight": (_weight, "not be negative"),
}
"""What is possible for each of them, and how to say it."""


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
        possible, words = LIMITS[name]
        if value is not None and not possible(value):
            raise UsageError(f"{name} must {words}; got {value}")
    return found
