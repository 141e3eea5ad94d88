"""Recipes: TOML files with one section per stage, parsed into validated, frozen configs.

```toml
[prepare]
dataset = "motif-size"
num_graphs = 3000

[generate]
recipe = "combine-any"
ratio = 0.25
```

`recipe` in `[generate]` or `[augment]` stands for the options of a named recipe; other options of
the section override them. If the recipe has options of pretraining, too, they are defaults of the
sections `[extract]`, `[bridge]` and `[mask]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gsx import typed_values
from gsx.errors import RecipeError, did_you_mean
from gsx.pipeline.named_recipes import expand_recipe, pretraining_options
from gsx.pipeline.recipe_values import (
    as_config_options,
    as_field_values,
    format_choice_error,
)
from gsx.pipeline.stage_order import STAGES, stage_named
from gsx.stages.stage import Stage

_CHOICE = re.compile(r"Invalid enum value '(.*)'")
_FIELD = re.compile(r" - at `\$\.?([^`]*)`")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Resolved configs of the stages to run, in the order of the pipeline."""

    name: str
    configs: Mapping[str, Any]
    """Stage → its config."""


def read_recipe(path: Path, *, raw: str | None = None) -> Recipe:
    """Read a recipe file; ``raw`` is the default directory of raw files."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RecipeError(
            f"no recipe {path}. Write one, or start from a file in `examples/`."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} cannot be read: {error}") from error
    return parse_recipe(text, path.name, raw=raw)


def parse_recipe(text: str, where: str, *, raw: str | None = None) -> Recipe:
    """Parse the text of a recipe; ``where`` is its name in error messages."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of many digits, deep nesting
        raise RecipeError(f"{where} is not TOML: {error}") from error
    names = [stage.name for stage in STAGES]
    for section, options in document.items():
        if section not in names:
            raise RecipeError(
                f"{where}: unknown section `[{section}]`. {did_you_mean(section, names)}"
            )
        if not isinstance(options, dict):
            raise RecipeError(f"{where}: `{section}` must be a section `[{section}]`, not a value")
    if not document:
        raise RecipeError(f"{where} has no sections. Start with a section `[prepare]`.")
    document = as_config_options(document, where)
    _add_defaults(document, raw)
    configs = {
        stage.name: _parse_section(stage, document[stage.name], f"{where} [{stage.name}]")
        for stage in STAGES
        if stage.name in document
    }
    for name, config in configs.items():
        for needed in stage_named(name).inputs_of(config).values():
            if needed not in configs:
                raise RecipeError(
                    f"{where}: `[{name}]` needs the artifact of `[{needed}]`. Add a section "
                    f"`[{needed}]`."
                )
    return Recipe(where.removesuffix(".toml"), configs)


def _add_defaults(document: dict[str, Any], raw: str | None) -> None:
    """Add the directory of raw files, and the pretraining options of a named recipe."""
    if raw is not None and "prepare" in document:
        document["prepare"].setdefault("raw", raw)
    pretraining = pretraining_options(document.get("generate", {}).get("recipe"))
    for name, options in pretraining.items():
        if name in document:
            document[name] = {**options, **document[name]}


def _parse_section(stage: Stage, options: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
    """Return the resolved config of a section."""
    return parse_config(stage.name, as_field_values(stage, options, where), where)


def parse_config(stage_name: str, options: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
    """Validate the options of one stage and return its resolved config."""
    stage = stage_named(stage_name)
    if "recipe" in options and stage_name in ("generate", "augment"):
        options = expand_recipe(stage_name, options, where)
    fields = [field.name for field in msgspec.structs.fields(stage.config)]
    for key in options:
        if key not in fields:
            raise RecipeError(f"{where}: unknown option `{key}`. {did_you_mean(key, fields)}")
    try:
        config = typed_values.convert(options, stage.config)
    except msgspec.ValidationError as error:
        message = _format_validation_error(stage, str(error))
        raise RecipeError(f"{where}: {message}") from error
    try:
        return stage.resolve(config)
    except RecipeError:
        raise
    except Exception as error:
        error.add_note(f"in {where}")
        raise


def _format_validation_error(stage: Stage, message: str) -> str:
    """Turn ``Expected `int`, got `str` - at `$.seed``` into ``seed: Expected …``."""
    match = _FIELD.search(message)
    problem = _FIELD.sub("", message)
    value = _CHOICE.fullmatch(problem)
    if match and match[1] and value:
        return format_choice_error(stage, match[1].partition("[")[0], value[1])
    if match and match[1]:
        return f"`{match[1]}`: {problem}"
    return problem.replace("Object missing required field", "missing option")
