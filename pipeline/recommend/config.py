"""Options of `gsx recommend`."""

from __future__ import annotations

import re

import msgspec

from gsx.errors import UsageError

DEFAULT_BUDGET = 600
MAX_BUDGET = 30 * 24 * 3600
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


class RecommendConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[recommend]``."""

    budget: int = DEFAULT_BUDGET
    """Seconds of computation for the confirmation, on one core of a typical machine. Converted to
    a number of training steps by a fixed cost model, so that the result does not depend on the
    clock. 0 only screens."""
    graphs: int = 3000
    """Largest number of training graphs, and of validation graphs, that are compared on."""
    recipes: tuple[str, ...] | None = None
    """Recipes to compare with ``none``; None: all that apply to the corpus."""
    seed: int = 0
    """Root of the random streams."""


def resolve(config: RecommendConfig) -> RecommendConfig:
    """Reject options that are out of range, and unknown recipes."""
    if not 0 <= config.budget <= MAX_BUDGET:
        raise UsageError(f"budget must be in 0..{MAX_BUDGET} seconds; got {config.budget}")
    if config.graphs < 100:
        raise UsageError(f"graphs must be at least 100; got {config.graphs}")
    if config.recipes is None:
        return config
    from gsx.pipeline.named_recipes import NONE, named_recipe  # imports all stages

    for name in config.recipes:
        named_recipe(name)
    names = [name for name in dict.fromkeys(config.recipes) if name != NONE]
    if not names:
        raise UsageError("recipes names nothing to compare with `none`; `gsx recipes` lists them")
    return msgspec.structs.replace(config, recipes=tuple(names))


def parse_duration(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``10m`` or ``1h30m``."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise UsageError(f"a budget is a duration such as 90s, 10m or 1h30m; got `{text}`")
    hours, minutes, seconds = (int(value or 0) for value in match.groups())
    return 3600 * hours + 60 * minutes + seconds
