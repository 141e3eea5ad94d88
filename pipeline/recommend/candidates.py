"""Candidates: the recipes that apply to a corpus, and the models they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gsx.errors import GsxError
from gsx.pipeline.named_recipes import NONE, named_recipe, named_recipes
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.stages.chem.features import is_molecular
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus

PRETRAINED_STAGES = ("extract", "bridge", "mask")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Recipes to compare with `none`, and why others are left out."""

    names: tuple[str, ...]
    left_out: dict[str, str]
    """Recipe → reason."""


def applicable(corpus: Corpus, recipes: Sequence[str] | None) -> Candidates:
    """Return the recipes that apply to a corpus: all of them, or those of a list."""
    molecules = is_molecular(corpus.info)
    listed = recipes if recipes is not None else [
        recipe.name for recipe in named_recipes().values() if recipe.recommend
    ]  # fmt: skip
    names, left_out = [], {}
    for name in listed:
        if name == NONE:
            continue
        reason = named_recipe(name).obstacle(corpus.info, molecules=molecules)
        if reason is None and named_recipe(name).stage == "augment" and molecules and not recipes:
            reason = "its graphs are no valid molecules"
        if reason is None:
            names.append(name)
        else:
            left_out[name] = reason
    return Candidates(tuple(names), left_out)


def train_models(
    candidates: Candidates,
    sample: Artifact,
    store: Store,
    progress: Callable[[str], None],
    *,
    random_bridges: bool = False,
) -> tuple[Candidates, dict[str, Artifact]]:
    """Train the models that candidates need, on the sample.

    Recipes whose model cannot be trained are left out. Returns the others, and the models by stage.
    With ``random_bridges`` no bridge model is trained for recipes with learned bridges.
    """
    models: dict[str, Artifact] = {}
    names, left_out = list(candidates.names), dict(candidates.left_out)
    for stage_name in PRETRAINED_STAGES:
        users = [name for name in names if stage_name in _needed(name, random_bridges)]
        if not users:
            continue
        progress(stage_name)
        stage = stage_named(stage_name)
        config = parse_config(stage_name, {}, "gsx recommend")
        step = Step(stage, config, stage.inputs_of(config))
        try:
            *_, (_, built) = run_plan((step,), store, artifacts={"prepare": sample})
        except GsxError as error:
            names = [name for name in names if name not in users]
            left_out |= dict.fromkeys(users, str(error))
        else:
            models[stage_name] = built.artifact
    return Candidates(tuple(names), left_out), models


def recipe_config(name: str, *, random_bridges: bool, **options: Any) -> Any:  # noqa: ANN401
    """Return the config of a recipe; with ``random_bridges`` it needs no learned ones."""
    recipe = named_recipe(name)
    if random_bridges and recipe.stage == "generate":
        options = {"bridges": "random", **options}
    return recipe.config(**options)


def _needed(name: str, random_bridges: bool) -> list[str]:  # noqa: FBT001
    """Return the stages whose models a recipe needs."""
    stage = named_recipe(name).stage
    if stage is None:
        return []
    config = recipe_config(name, random_bridges=random_bridges)
    return list(stage_named(stage).inputs_of(config).values())
