"""The stages of the pipeline, in the order in which data flows."""

from __future__ import annotations

from gsx.stages import augment, bridge, convert, describe, extract, generate, mask, prepare, train
from gsx.stages.stage import Stage

STAGES: tuple[Stage, ...] = (
    prepare.STAGE,
    convert.STAGE,
    describe.STAGE,
    extract.STAGE,
    bridge.STAGE,
    mask.STAGE,
    generate.STAGE,
    augment.STAGE,
    train.STAGE,
)


def stage_named(name: str) -> Stage:
    """Return the stage called ``name``."""
    return next(stage for stage in STAGES if stage.name == name)
