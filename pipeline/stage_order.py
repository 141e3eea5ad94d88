"""The stages of the pipeline, in the order of execution."""

from __future__ import annotations

from gsx.pipeline.recommend import stage as recommend
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
from gsx.storage.corpora.artifact_files import JsonFiles

STAGES: tuple[Stage, ...] = (
    prepare.STAGE,
    convert.STAGE,
    describe.STAGE,
    extract.STAGE,
    bridge.STAGE,
    mask.STAGE,
    recommend.STAGE,
    generate.STAGE,
    augment.STAGE,
    train.STAGE,
)


def stage_named(name: str) -> Stage:
    """Return a stage by its name."""
    return next(stage for stage in STAGES if stage.name == name)


def json_files(kind: str) -> JsonFiles | None:
    """Return the types of all JSON files of a kind of artifact; None if no stage writes it."""
    return next((stage.json_files() for stage in STAGES if stage.kind == kind), None)
