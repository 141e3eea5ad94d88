"""Run stages of the pipeline in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.storage.artifacts.store import Artifact, Store

Artifacts = dict[str, Artifact]
"""Artifacts by the name of the stage that wrote them."""


def run_recipe(store: Path, recipe: str, raw: str | None = None) -> Artifacts:
    """Run all stages of a recipe (TOML); artifacts that exist are reused.

    ``raw`` is the directory of raw datasets.
    """
    plan = make_plan(parse_recipe(recipe, "bench", raw=raw))
    return {step.name: built.artifact for step, built in run_plan(plan, Store.at(store))}


def stage_step(name: str, options: Mapping[str, object]) -> Step:
    """Return the step of one stage with these options."""
    stage = stage_named(name)
    config = parse_config(name, dict(options), "bench")
    return Step(stage, config, stage.inputs_of(config))


def run_step(store: Path, step: Step, inputs: Mapping[str, Artifact]) -> Artifact:
    """Run one step, from reading its inputs to the published artifact."""
    ((_, built),) = run_plan((step,), Store.at(store), artifacts=inputs)
    return built.artifact
