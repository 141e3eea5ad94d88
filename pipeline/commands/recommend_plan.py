"""Plans of `gsx recommend`, and of `gsx generate --recipe auto`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.generate_plan import (
    GENERAL_OPTIONS,
    Source,
    make_generate_plan,
    source_plan,
)
from gsx.pipeline.commands.option_values import Options
from gsx.pipeline.named_recipes import AUTO
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.recommend.config import parse_duration
from gsx.pipeline.stage_order import stage_named
from gsx.storage.artifacts.store import Artifact, Store

ROLE = "recommendation"
"""Role of the recommendation among the inputs of the corpus that follows it."""


def make_recommend_plan(
    source: Source,
    options: Options,
    store: Store,
    *,
    budget: str | int,
    recipes: str | Sequence[str] | None = None,
    graphs: int = 3000,
    seed: int | None = None,
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that prepare a dataset and compare recipes on it."""
    if isinstance(source, str) and source.endswith(".toml"):
        raise UsageError(f"{source} is a recipe file; name a dataset or a corpus")
    prepare, artifacts = source_plan(source, options, store)
    names = recipes.split(",") if isinstance(recipes, str) else recipes
    names = None if names is None else [name.strip() for name in names]
    seconds = parse_duration(budget) if isinstance(budget, str) else budget
    config = parse_config(
        "recommend",
        {"budget": seconds, "recipes": names, "graphs": graphs, "seed": seed or 0},
        "gsx recommend",
    )
    stage = stage_named("recommend")
    return (*prepare, Step(stage, config, stage.inputs_of(config))), artifacts


def wants_recommendation(source: Source, options: Options) -> bool:
    """Return whether `gsx generate` is to choose the recipe: no option says how to make graphs."""
    is_file = isinstance(source, str) and source.endswith(".toml")
    if options["recipe"] is not None or is_file:
        return bool(options["recipe"] == AUTO)
    return not any(
        value not in (None, False, ())
        for name, value in options.items()
        if name not in {*GENERAL_OPTIONS, "recipe", "budget"}
    )


def make_recommended_plan(
    source: Source,
    options: Options,
    store: Store,
    recommendation: Artifact,
    choice: str,
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that build the recommended corpus; its lineage has the recommendation."""
    plan, artifacts = make_generate_plan(source, {**options, "recipe": choice}, store)
    if not plan:  # an existing corpus, and no graphs to add
        return plan, artifacts
    *others, last = plan
    if last.stage.kind == "corpus" and last.name != "prepare":
        inputs: dict[str, Any] = {**last.inputs, ROLE: "recommend"}
        last = dataclasses.replace(last, inputs=inputs)
    return (*others, last), {**artifacts, "recommend": recommendation}
