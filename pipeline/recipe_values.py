"""Names and values of the command line in recipe files.

A recipe accepts the options of commands under the names and with the values that ``--help`` prints,
in addition to those of the configs: ``bridges = "vae"``, ``f = "2..4"``, ``algorithm = "vrex"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gsx.errors import RecipeError, did_you_mean
from gsx.stages.stage import Stage

ALIASES: Mapping[str, Mapping[str, str]] = {
    "prepare": {"envs": "environments", "target": "targets", "feature_column": "feature_columns"},
    "bridge": {"bridges": "model"},
    "train": {"algorithm": "learner", "origin": "origins"},
}
"""Option of the command line → option of the config, by section."""
SOURCES = ("smiles", "tu", "ogb", "pyg", "good", "nodes")
"""Options of ``gsx prepare`` that name a file of user data."""
BRIDGE_MODELS = ("vae", "diffusion")
"""Values of ``--bridges`` that name a bridge model."""
COMMAND_LINE_ONLY: Mapping[str, frozenset[str]] = {"train": frozenset({"log"})}
"""Options that a recipe cannot have, by section: they write outside of the store, and a recipe may
come from somebody else."""
_BOTH = {"both": ["parquet", "zarr"]}


def as_config_options(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the sections of a recipe with the names and values of configs."""
    sections = {name: dict(options) for name, options in document.items()}
    for name, options in sections.items():
        _use_config_names(name, options, f"{where} [{name}]")
        if "format" in options:
            _rename(options, "format", "formats", f"{where} [{name}]")
        if isinstance(formats := options.get("formats"), str):
            options["formats"] = _BOTH.get(formats, [formats])
    if "prepare" in sections:
        _use_source(sections["prepare"], f"{where} [prepare]")
    if "generate" in sections:
        _use_bridge_model(sections, where)
    if (train := sections.get("train")) is not None and "source_only" in train:
        if "augmented" in train:
            raise RecipeError(f"{where} [train]: give `source_only` or `augmented`, not both.")
        train["augmented"] = not train.pop("source_only")
    return sections


def _use_config_names(section: str, options: dict[str, Any], where: str) -> None:
    """Rename options to those of the config; reject those of the command line alone."""
    for option in COMMAND_LINE_ONLY.get(section, frozenset()) & options.keys():
        raise RecipeError(
            f"{where}: `{option}` is not an option of recipes, because it writes outside of the "
            f"store. Use `gsx {section} --{option}`."
        )
    for alias, option in ALIASES.get(section, {}).items():
        if alias in options:
            _rename(options, alias, option, where)


def _rename(options: dict[str, Any], alias: str, option: str, where: str) -> None:
    if option in options:
        raise RecipeError(f"{where}: `{alias}` and `{option}` are the same option. Give one.")
    options[option] = options.pop(alias)


def _use_source(options: dict[str, Any], where: str) -> None:
    """Replace ``smiles = FILE`` by ``dataset = "smiles"`` and ``file = FILE``."""
    given = [source for source in SOURCES if source in options]
    if not given:
        return
    if len(given) > 1 or "dataset" in options or "file" in options:
        names = ", ".join(f"`{name}`" for name in (*given, "dataset", "file") if name in options)
        raise RecipeError(f"{where}: {names} exclude each other. Name one source.")
    options["file"] = options.pop(given[0])
    options["dataset"] = given[0]


def _use_bridge_model(sections: dict[str, Any], where: str) -> None:
    """Replace ``bridges = "vae"`` by learned bridges and the bridge model."""
    model = sections["generate"].get("bridges")
    if model not in BRIDGE_MODELS:
        return
    sections["generate"]["bridges"] = "learned"
    bridge = sections.setdefault("bridge", {})
    if bridge.setdefault("model", model) != model:
        raise RecipeError(
            f'{where}: `[generate]` has `bridges = "{model}"`, and `[bridge]` has '
            f'`model = "{bridge["model"]}"`. Leave one of them out.'
        )


def as_field_values(stage: Stage, options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return options in which text in the notation of the command line became lists.

    ``2..4`` and ``0.8/0.1/0.1`` become lists of numbers, single names a list of one name.
    """
    hints = get_type_hints(stage.config)
    values = dict(options)
    for name, value in options.items():
        items = _tuple_items(hints.get(name))
        if items and isinstance(value, str | int | float) and not isinstance(value, bool):
            values[name] = _as_list(str(value), items, f"{where}: `{name}`")
    return values


def _tuple_items(hint: object) -> tuple[Any, ...]:
    """Return the types of the items of a tuple; empty for other types."""
    for member in (hint, *get_args(hint)):
        if get_origin(member) is tuple:
            return get_args(member)
    return ()


def _as_list(text: str, items: tuple[Any, ...], where: str) -> list[Any]:
    if items[-1] is Ellipsis:
        return [text]
    parts = text.split("/") if "/" in text else text.split("..")
    if len(parts) == 1:
        parts *= len(items)
    try:
        return [item(part) for item, part in zip(items, parts, strict=True)]
    except (TypeError, ValueError) as error:
        form = "LOW..HIGH" if len(items) == 2 else "/".join("N" for _ in items)
        raise RecipeError(f"{where} is `{text}`; expected {form} or a list.") from error


def choices(stage: Stage, name: str) -> tuple[str, ...]:
    """Return the values that a text option accepts; empty if any."""
    hint = get_type_hints(stage.config).get(name)
    found: list[str] = []
    waiting = [hint]
    while waiting:
        member = waiting.pop()
        if get_origin(member) is Literal:
            found += [str(value) for value in get_args(member)]
        else:
            waiting += get_args(member)
    if (stage.name, name) == ("generate", "bridges"):
        found = [*BRIDGE_MODELS, *found]
    return tuple(dict.fromkeys(found))


def format_choice_error(stage: Stage, name: str, value: str) -> str:
    """Return the error for a value that is not among the choices of an option."""
    available = choices(stage, name)
    hint = did_you_mean(value, available)
    if hint.startswith("Did"):
        hint += " Known: " + ", ".join(f"`{choice}`" for choice in available) + "."
    return f"`{name}` cannot be `{value}`. {hint}"
