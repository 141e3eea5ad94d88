"""The recommendation as a recipe file for `gsx run` and `gsx generate`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gsx.pipeline.named_recipes import named_recipe
from gsx.pipeline.recommend.evidence import Evidence
from gsx.storage.artifacts.manifest import Manifest


def recommended_toml(evidence: Evidence, source: Manifest) -> str:
    """Return a recipe file that builds the recommended corpus.

    Sources that were not prepared from a dataset have no section `[prepare]`; their corpus is named
    on the command line: `gsx generate CORPUS --recipe NAME`.
    """
    recipe = named_recipe(evidence.choice)
    lines = [f"# Recommended for {json.dumps(evidence.dataset)}: {recipe.name}.",
             f"# {evidence.reason[:1].upper()}{evidence.reason[1:]}."]  # fmt: skip
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
    rows = [f"{key} = {_value(value)}" for key, value in options.items() if value is not None]
    return ["", f"[{name}]", *rows]


def _value(value: Any) -> str:  # noqa: ANN401
    """Return a value in TOML, which is JSON for texts, numbers, booleans and lists."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=True)
