"""The recommendation as a recipe file for `gsx run` and `gsx generate`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gsx.escape import one_line
from gsx.pipeline.named_recipes import named_recipe
from gsx.pipeline.recommend.evidence import Evidence
from gsx.storage.artifacts.manifest import Manifest

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def recommended_toml(evidence: Evidence, source: Manifest) -> str:
    """Return a recipe file that builds the recommended corpus.

    Sources that were not prepared from a dataset have no section `[prepare]`; their corpus is named
    on the command line: `gsx generate CORPUS --recipe NAME`.
    """
    recipe = named_recipe(evidence.choice)
    reason = one_line(evidence.reason)
    lines = [f"# Recommended for {_text(evidence.dataset)}: {recipe.name}.",
             f"# {reason[:1].upper()}{reason[1:]}."]  # fmt: skip
    if recipe.stage is None:
        lines.append("# No graphs are added.")
    else:
        lines.append(f"# With an existing corpus: gsx generate CORPUS --recipe {recipe.name}")
    if source.stage == "prepare":
        lines += _section("prepare", source.config)
    for stage in recipe.pretrained:
        lines += _section(stage, {})
    if recipe.stage is not None:
        lines += _section(recipe.stage, {"recipe": recipe.name, **recipe.options})
    return "\n".join(lines) + "\n"


def _section(name: str, options: Mapping[str, Any]) -> list[str]:
    """Return a section; options without a value are left out."""
    return ["", f"[{name}]", *_pairs(options)]


def _pairs(options: Mapping[str, Any]) -> list[str]:
    return [
        f"{key if _BARE_KEY.fullmatch(key) else _text(key)} = {_value(value)}"
        for key, value in options.items()
        if value is not None
    ]


def _value(value: Any) -> str:  # noqa: ANN401
    """Return a value in TOML. Options of a corpus may come from an unknown author."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(_pairs(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value if item is not None)}]"
    return json.dumps(value)


def _text(text: str) -> str:
    """Return a basic string of TOML: JSON, except that all that is not printable is escaped."""
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in json.dumps(text, ensure_ascii=False)
    )
