"""The list of targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.artifact_target import ArtifactTarget
from tests.fuzz.http_target import HttpTarget
from tests.fuzz.key_target import KeyTarget
from tests.fuzz.raw_target import RawTarget
from tests.fuzz.results_target import PredictTarget, ResultsTarget
from tests.fuzz.small_targets import CacheTarget, RecipeTarget
from tests.fuzz.store_target import StoreTarget
from tests.fuzz.target import Target

TARGETS: tuple[type[Target], ...] = (
    ArtifactTarget,
    StoreTarget,
    RawTarget,
    PredictTarget,
    ResultsTarget,
    CacheTarget,
    RecipeTarget,
    KeyTarget,
    HttpTarget,
)


def make_targets(seeds: Path, catalogue: Mapping[str, Any]) -> dict[str, Target]:
    """Return name → target."""
    return {target.name: target(seeds, catalogue) for target in TARGETS}
