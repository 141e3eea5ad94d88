"""Plans of `gsx recommend`, and of `gsx generate --recipe auto`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from gsx.cli.generate_plan import GENERAL_OPTIONS, make_generate_plan, source_plan
from gsx.errors import UsageError
from gsx.pipeline.named_recipes import AUTO
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.recommend.config import parse_duration
from gsx.pipeline.stage_order import stage_named
from gsx.storage.artifacts.store import Artifact, Store

if TYPE_CHECKING:
    from gsx.cli.generate_plan import Options

ROLE = "recommendation"
"""Role of the recommendation among the inputs of the corpus that follows it."""


def make_recommend_plan(
    source: str,
    options: Options,
    store_url: str | None,
    *,
    budget: str,
    recipes: str | None = None,
    graphs: int = 3000,
    seed: int | None = None,
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that prepare a dataset and compare recipes on it."""
    if source.endswith(".toml"):
        raise UsageError(f"{source} is a recipe file; name a dataset or a corpus")
    prepare, artifacts = source_plan(source, options, Store.at(store_url))
    names = None if recipes is None else [name.strip() for name in recipes.split(",")]
    config = parse_config(
        "recommend",
        {"budget": parse_duration(budget), "recipes": names, "graphs": graphs, "seed": seed or 0},
        "gsx recommend",
    )
    stage = stage_named("recommend")
    return (*prepare, Step(stage, config, stage.inputs_of(config))), artifacts


def wants_recommendation(source: str, options: Options) -> bool:
    """Return whether `gsx generate` is to choose the recipe: no option says how to make graphs."""
    if options["recipe"] is not None or source.endswith(".toml"):
        return bool(options["recipe"] == AUTO)
    return not any(
        value not in (None, False, ())
        for name, value in options.items()
        if name not in {*GENERAL_OPTIONS, "recipe", "budget"}
    )


def make_recommended_plan(
    source: str,
    options: Options,
    store_url: str | None,
    recommendation: Artifact,
    choice: str,
) -> tuple[tuple[Step, ...], dict[str, Artifact]]:
    """Return the steps that build the recommended corpus; its lineage has the recommendation."""
    plan, artifacts = make_generate_plan(source, {**options, "recipe": choice}, store_url)
    if not plan:  # an existing corpus, and no graphs to add
        return plan, artifacts
    *others, last = plan
    if last.stage.kind == "corpus" and last.name != "prepare":
        inputs: dict[str, Any] = {**last.inputs, ROLE: "recommend"}
        last = dataclasses.replace(last, inputs=inputs)
    return (*others, last), {**artifacts, "recommend": recommendation}
