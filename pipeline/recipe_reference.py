"""Reference of recipe files as Markdown, generated from the configs of the stages."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from gsx.pipeline.recipe_values import ALIASES, BRIDGE_MODELS, COMMAND_LINE_ONLY, SOURCES
from gsx.pipeline.stage_order import STAGES
from gsx.stages.stage import Stage
from gsx.stages.train.algorithms.options import OPTIONS

HEAD = """\
# Recipe files

<!-- Written by `make docs` from the configs of the stages. -->

A recipe file is TOML with one section per stage; `gsx run FILE.toml` runs the stages whose
artifacts are missing, and `gsx generate FILE.toml` those up to generation. For recipes by name,
such as `recipe = "grow"`, see [recipes.md](recipes.md).

Options have the names and values of the command line ([cli.md](cli.md)), too: `--smiles FILE
--target y` is `smiles = "FILE"` and `target = "y"`. Ranges and ratios are lists, or text in the
notation of the command line: `f = [2, 4]` or `f = "2..4"`, `ratios = [0.8, 0.1, 0.1]` or
`ratios = "0.8/0.1/0.1"`. Where several names are allowed, one name needs no list.
"""
_MEANINGS = {
    "prepare": "the source corpus: splits, environments, targets (`gsx prepare`)",
    "convert": "the corpus in another file format (`gsx export --to parquet|zarr|both`)",
    "describe": "statistics of the corpus (`gsx describe`)",
    "extract": "the extractor of causal subgraphs (`gsx pretrain extract`)",
    "bridge": "the bridge model (`gsx pretrain bridge`)",
    "mask": "the feature mask (`gsx pretrain mask`)",
    "recommend": "the comparison of named recipes (`gsx recommend`)",
    "generate": "the augmented corpus (`gsx generate`)",
    "augment": "an augmented corpus for comparison (`gsx augment`)",
    "train": "a model (`gsx train`)",
}
"""Stage → what its section configures."""
_TYPES = {int: "integer", float: "number", str: "text", bool: "`true`, `false`"}
_RECIPE_ROW = (
    "| `recipe` | text | none | Name of a [recipe](recipes.md) whose options are the defaults. |"
)


def recipe_file_reference() -> str:
    """Return one section per stage, in the order of the pipeline."""
    return "\n".join([HEAD, *(line for stage in STAGES for line in _section(stage))])


def _section(stage: Stage) -> Iterator[str]:
    yield f"## [{stage.name}]\n\nOptions of {_MEANINGS[stage.name]}.\n"
    hidden = COMMAND_LINE_ONLY.get(stage.name, frozenset())
    fields = [f for f in msgspec.structs.fields(stage.config) if f.name not in hidden]
    if not fields:
        yield "It has no options.\n"
        return
    yield "| option | values | default | meaning |\n|---|---|---|---|"
    if stage.name in ("generate", "augment"):
        yield _RECIPE_ROW
    hints, meanings = get_type_hints(stage.config), field_meanings(stage.config)
    for field in sorted(fields, key=lambda field: field.name not in meanings):
        values = _values(hints[field.name])
        if (stage.name, field.name) == ("generate", "bridges"):
            values = f"{', '.join(f'`{name}`' for name in BRIDGE_MODELS)}, {values}"
        yield _row(
            field.name, values, _default(field), meanings.get(field.name) or _hyper(field.name)
        )
    yield ""
    yield from _other_names(stage.name)


def _other_names(stage: str) -> Iterator[str]:
    """Yield a line about further names of options."""
    names = [f"`{alias}` for `{option}`" for alias, option in ALIASES.get(stage, {}).items()]
    if stage == "prepare":
        names.append(f"{', '.join(f'`{name}`' for name in SOURCES)} for `dataset` and `file`")
    if stage == "train":
        names.append("`source_only = true` for `augmented = false`")
    if names:
        yield f"Also: {'; '.join(names)}.\n"


def _row(*cells: str) -> str:
    name, *others = (cell.replace("|", "\\|") for cell in cells)
    return f"| `{name}` | {' | '.join(others)} |"


def _values(hint: Any) -> str:  # noqa: ANN401
    """Return the values that a type allows."""
    if get_origin(hint) in (Union, UnionType):
        members = [m for m in get_args(hint) if m not in (NoneType, msgspec.UnsetType)]
        return ", ".join(dict.fromkeys(map(_values, members)))
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is tuple:
        items = get_args(hint)
        if items[-1] is Ellipsis:
            return f"list of {_values(items[0])}"
        return f"{len(items)} {_values(items[0])}s"
    return _TYPES.get(hint, "text")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None or value is msgspec.UNSET:
        return "-"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def field_meanings(config: type) -> dict[str, str]:
    """Return the texts below the fields of a class in its source."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(tree, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, text in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            meanings[field.target.id] = " ".join(str(text.value.value).split()) if is_text else ""  # type: ignore[union-attr]
    return {name: text.replace("``", "`") for name, text in meanings.items()}


def _hyper(name: str) -> str:
    """Return the meaning of a hyper-parameter of training algorithms."""
    return (
        OPTIONS[name].help.replace("  [default: ", " Default: ").removesuffix("]") + "."
        if name in OPTIONS
        else ""
    )
