"""Recipes: a TOML file with one section per stage, turned into frozen configs or refused.

```toml
[prepare]
dataset = "motif-size"
num_graphs = 3000

[describe]
```
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gsx.errors import RecipeError, nearest
from gsx.pipeline.stage_order import STAGES, stage_named

_AT = re.compile(r" - at `\$\.?([^`]*)`")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Configs of the stages to run, resolved, in the order of the pipeline."""

    name: str
    configs: Mapping[str, Any]
    """Config of each stage the recipe names."""


def read_recipe(path: Path, *, raw: str | None = None) -> Recipe:
    """Read a recipe file; ``raw`` is the folder of raw files where the recipe names none."""
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
    """Turn the text of a recipe into resolved configs; ``where`` names it in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{where} is not TOML: {error}") from error
    known = [stage.name for stage in STAGES]
    for section, options in document.items():
        if section not in known:
            raise RecipeError(f"{where}: unknown section `[{section}]`. {nearest(section, known)}")
        if not isinstance(options, dict):
            raise RecipeError(f"{where}: `{section}` must be a section `[{section}]`, not a value")
    if not document:
        raise RecipeError(f"{where} names no stage. Start with a section `[prepare]`.")
    if raw is not None and "prepare" in document:
        document["prepare"].setdefault("raw", raw)
    configs = {
        stage.name: parse_config(stage.name, document[stage.name], f"{where} [{stage.name}]")
        for stage in STAGES
        if stage.name in document
    }
    for name, config in configs.items():
        for needed in stage_named(name).inputs_of(config).values():
            if needed not in configs:
                raise RecipeError(
                    f"{where}: `[{name}]` reads what `[{needed}]` makes; add a section `[{needed}]`"
                )
    return Recipe(where.removesuffix(".toml"), configs)


def parse_config(stage_name: str, options: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
    """Turn the options of one stage into its resolved config."""
    stage = stage_named(stage_name)
    fields = [field.name for field in msgspec.structs.fields(stage.config)]
    for key in options:
        if key not in fields:
            raise RecipeError(f"{where}: unknown option `{key}`. {nearest(key, fields)}")
    try:
        config = msgspec.convert(options, stage.config)
    except msgspec.ValidationError as error:
        raise RecipeError(f"{where}: {_readable(str(error))}") from error
    try:
        return stage.resolve(config)
    except RecipeError:
        raise
    except Exception as error:
        error.add_note(f"in {where}")
        raise


def _readable(message: str) -> str:
    """Turn ``Expected `int`, got `str` - at `$.seed``` into ``seed: Expected …``."""
    found = _AT.search(message)
    plain = _AT.sub("", message)
    if found and found[1]:
        return f"`{found[1]}`: {plain}"
    return plain.replace("Object missing required field", "missing option")
