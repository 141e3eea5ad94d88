"""`gsx recipes`: list the named recipes, or describe one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import json_option
from gsx.cli.output import echo, print_json, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gsx.pipeline.named_recipes import NamedRecipe


@click.command(short_help="List the named recipes of `gsx generate`.")
@click.argument("name", required=False)
@json_option
def recipes(*, name: str | None, as_json: bool) -> None:
    """List the named recipes of `gsx generate --recipe NAME`, or describe the recipe NAME.

    `gsx recommend SOURCE` finds out which of them helps on a corpus.
    """
    from gsx.pipeline.named_recipes import named_recipe, named_recipes

    listed = list(named_recipes().values()) if name is None else [named_recipe(name)]
    if as_json:
        print_json({"recipes": [_as_json(recipe) for recipe in listed]})
    elif name is not None:
        echo(*_describe(listed[0]))
    else:
        for recipe in listed:
            echo(*_summarize(recipe))
        echo("", "`gsx recipes NAME` describes one. `gsx recommend SOURCE` compares them.")


def _summarize(recipe: NamedRecipe) -> list[str]:
    """Return name, data and assumption of a recipe in three lines."""
    return [
        f"{recipe.name}: {recipe.title}",
        *_indented(f"{_data(recipe)}; {_models(recipe)}"),
        *_indented(f"assumes about labels: {recipe.labels}"),
    ]


def _indented(text: str) -> list[str]:
    return [f"    {line.strip()}" for line in wrap(text, margin=4).split("\n")]


def _models(recipe: NamedRecipe) -> str:
    """Return the models that a recipe needs; gsx trains missing ones."""
    names = {"extract": "an extractor", "bridge": "a bridge model", "mask": "a feature mask"}
    return f"needs {' and '.join(names[stage] for stage in recipe.pretrained) or 'no model'}"


def _data(recipe: NamedRecipe) -> str:
    """Return the data a recipe applies to."""
    levels = "graph or node level" if len(recipe.levels) == 2 else f"{recipe.levels[0]} level"
    if recipe.classes:
        tasks = "one binary task" if recipe.tasks == ("binary",) else "classes"
    elif recipe.tasks is not None:
        tasks = "regression" if recipe.tasks == ("regression",) else "binary tasks"
    else:
        tasks = "any task"
    return f"{levels}; {tasks}; {'also' if recipe.molecules else 'not for'} molecules"


def _as_json(recipe: NamedRecipe) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(recipe)
    return {**document, "pretrained": list(recipe.pretrained)}


def _describe(recipe: NamedRecipe) -> list[str]:
    options = _assignments(recipe.options)
    rows = {
        "applies to": _data(recipe),
        "assumes about labels": recipe.labels,
        "models": _models(recipe),
        "stage": recipe.stage or "none",
        "options": options or "none",
        **{
            f"options of {stage}": _assignments(values) for stage, values in recipe.pretrain.items()
        },
    }
    return [
        f"{recipe.name}: {recipe.title}",
        "",
        *wrap(recipe.summary).replace("\n  ", "\n").split("\n"),
        "",
        *(line for label, value in rows.items() for line in wrap(f"{label}: {value}").split("\n")),
    ]


def _assignments(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in options.items())


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list | tuple):
        return "..".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def recipe_reference() -> str:
    """Return the page docs/recipes.md."""
    from gsx.pipeline.named_recipes import named_recipes

    lines = [
        "# Named recipes",
        "",
        "<!-- Written by `make docs` from pipeline/named_recipes.toml. -->",
        "",
        "`gsx generate SOURCE --recipe NAME` adds the graphs of a recipe; `gsx recommend SOURCE`",
        "finds out which one helps ([recommend.md](recommend.md)). The terms are those of the",
        "[glossary](glossary.md).",
    ]
    for recipe in named_recipes().values():
        options = ", ".join(f"`{key} = {_text(value)}`" for key, value in recipe.options.items())
        lines += [
            "",
            f"## {recipe.name}",
            "",
            f"**{recipe.title}.** {recipe.summary}",
            "",
            f"- Data: {_data(recipe)}; {_models(recipe)}.",
            f"- Assumption about labels: {recipe.labels}.",
            f"- Options{f' of `{recipe.stage}`' if recipe.stage else ''}: {options or 'none'}.",
        ]
        for stage, values in recipe.pretrain.items():
            options = ", ".join(f"`{key} = {_text(value)}`" for key, value in values.items())
            lines.append(f"- Options of `{stage}`: {options}.")
    return "\n".join(lines) + "\n"
