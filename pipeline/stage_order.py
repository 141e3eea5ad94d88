"""The stages of the pipeline, in the order of execution."""

from __future__ import annotations

from gsx.stages.augment import stage as augment
from gsx.stages.bridge import stage as bridge
from gsx.stages.convert import stage as convert
from gsx.stages.describe import stage as describe
from gsx.stages.extract import stage as extract
from gsx.stages.generate import stage as generate
from gsx.stages.mask import stage as mask
from gsx.stages.prepare import stage as prepare
from gsx.stages.stage import Stage
from gsx.stages.train import stage as train

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
    """Return a stage by its name."""
    return next(stage for stage in STAGES if stage.name == name)
