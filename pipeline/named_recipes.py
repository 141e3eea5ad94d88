"""Named recipes: sets of options of `generate` or `augment`, shipped as `named_recipes.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

import msgspec

from gsx import typed_values
from gsx.errors import RecipeError, did_you_mean
from gsx.pipeline.stage_order import stage_named
from gsx.schema import CorpusInfo, Level, Task

FILE = "named_recipes.toml"
NONE = "none"
"""The recipe that adds no graphs."""
AUTO = "auto"
"""Not a recipe: `gsx generate` asks for the recommended one."""


class NamedRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named set of options, the data it applies to, and what it assumes."""

    name: str
    title: str
    summary: str
    labels: str
    """What the recipe assumes about labels."""
    family: str
    """Recipes of one family change the corpus in the same way."""
    stage: Literal["generate", "augment"] | None = None
    """Stage that adds the graphs; None adds none."""
    levels: tuple[Level, ...]
    tasks: tuple[Task, ...] | None = None
    """Tasks it applies to; None: all."""
    classes: bool = False
    """Whether it needs classes: a classification, or one binary task."""
    molecules: bool = True
    """Whether it applies to molecules."""
    recommend: bool = True
    """Whether `gsx recommend` considers it."""
    options: Mapping[str, Any] = {}
    pretrain: Mapping[str, Mapping[str, Any]] = {}
    """Options of the stages that the recipe trains models with."""

    def config(self, **overrides: Any) -> Any:  # noqa: ANN401
        """Return the resolved config of the stage, with further options."""
        from gsx.pipeline.recipe import parse_config

        assert self.stage is not None
        options = {"recipe": self.name, **overrides}
        return parse_config(self.stage, options, f"recipe {self.name}")

    @property
    def pretrained(self) -> tuple[str, ...]:
        """Stages that must be pretrained before the recipe can run, in order."""
        if self.stage is None:
            return ()
        inputs = stage_named(self.stage).inputs_of(self.config()).values()
        return tuple(name for name in inputs if name != "prepare")

    def obstacle(self, info: CorpusInfo, *, molecules: bool) -> str | None:
        """Return why the recipe does not apply to a corpus; None if it does."""
        if info.level not in self.levels:
            return f"needs {' or '.join(self.levels)}-level targets"
        if self.stage is not None and info.level == "graph" and info.sparse:
            return "needs dense node features"
        if self.tasks is not None and info.task not in self.tasks:
            return f"needs {' or '.join(self.tasks)} targets"
        single = info.task == "binary" and len(info.outputs) == 1
        if self.classes and info.task != "classification" and not single:
            return "needs classes"
        return "not for molecules" if molecules and not self.molecules else None


@functools.cache
def named_recipes() -> Mapping[str, NamedRecipe]:
    """Return all recipes by name, in the order of the file."""
    text = resources.files("gsx.pipeline").joinpath(FILE).read_text(encoding="utf-8")
    return {
        name: typed_values.convert(
            {"name": name, **fields, "summary": fields["summary"].strip().replace("\n", " ")},
            NamedRecipe,
        )
        for name, fields in tomllib.loads(text).items()
    }


def named_recipe(name: str, where: str = "") -> NamedRecipe:
    """Return a recipe by name; raise RecipeError for an unknown one."""
    recipes = named_recipes()
    if name not in recipes:
        prefix = f"{where}: " if where else ""
        raise RecipeError(
            f"{prefix}unknown recipe `{name}`. {did_you_mean(name, (*recipes, AUTO))} "
            "`gsx recipes` lists them."
        )
    return recipes[name]


def pretraining_options(recipe: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the pretraining options of a recipe, by stage; none for anything but a known name."""
    known = named_recipes()
    return known[recipe].pretrain if isinstance(recipe, str) and recipe in known else {}


def expand_recipe(stage: str, options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Replace the option `recipe` of a section by the options of the named recipe.

    Options of the section itself win.
    """
    own = {name: value for name, value in options.items() if name != "recipe"}
    name = options["recipe"]
    if not isinstance(name, str):
        raise RecipeError(f"{where}: `recipe` must be a name, such as `grow`")
    if name == AUTO:
        raise RecipeError(
            f"{where}: `{AUTO}` is not a recipe of a file. Run `gsx recommend`, and copy the "
            "section that it writes."
        )
    recipe = named_recipe(name, where)
    if recipe.stage is None:
        raise RecipeError(f"{where}: the recipe `{name}` adds no graphs. Remove the section.")
    if recipe.stage != stage:
        raise RecipeError(f"{where}: the recipe `{name}` belongs in the section `[{recipe.stage}]`")
    base = dict(recipe.options)
    for one, other in (("ratio", "count"), ("count", "ratio")):
        if one in own and other not in own:
            base.pop(other, None)
    return {**base, **own}
