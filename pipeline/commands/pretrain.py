"""`gsx pretrain`: train the models that generation needs, one at a time."""

from __future__ import annotations

from typing import Any

from gsx.pipeline.commands.option_values import Options
from gsx.pipeline.commands.session import Session, StepResult
from gsx.pipeline.pretraining_presets import preset_options
from gsx.storage.artifacts.store import Artifact


def pretrain(stage: str, corpus: Artifact, options: Options, session: Session) -> StepResult | None:
    """Train an extractor, a bridge model or a feature mask; return None for a dry run."""
    return session.run_stage(stage, stage_options(stage, options), {"prepare": corpus})


def stage_options(stage: str, options: Options) -> dict[str, Any]:
    """Return the options of a stage: those of the preset, and those that the user sets."""
    chosen = {name: value for name, value in options.items() if value not in (None, ())}
    features = chosen.get("features")
    if isinstance(features, str):
        chosen["features"] = tuple(text.strip() for text in features.split(","))
    return {**preset_options(stage, chosen.pop("preset")), **chosen}
