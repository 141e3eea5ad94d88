"""What tuning may choose: for some options of some stages, a few values each.

```toml
[generate]
options = ["011", "111"]
f = [[2, 4], [2, 8]]
ratio = [1.0]

[train]
learner = ["vrex"]
penalty = [1, 10]
```

Without a file the sets are those the paper searches for a method. A file narrows or widens the
options it names; the others keep their sets, those of learners the sets the paper searches for any
of the learners that are named. One value fixes an option.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gsx.errors import GsxError, RecipeError, nearest
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_presets import METHODS, MOVES, Method
from gsx.stages.train.algorithms.catalog import KINDS, matters, sets_of

SECTIONS = ("generate", "augment", "bridge", "extract", "mask", "train")
"""Stages whose options are chosen, those first that decide whether others matter."""
FIRST = {"generate": ("options", "bridges"), "train": ("learner",)}
"""Options that decide whether others matter."""
KEPT_OUT = ("seed", "source", "device", "formats", "shard_graphs", "augmented_only")
"""Options that say where or how often, not what."""

_MOVING = tuple(name.partition(".")[2] for name in MOVES)
Choice = Mapping[str, str]
"""Option, as ``stage.option`` → its value as JSON."""


@dataclass(frozen=True, slots=True)
class Space:
    """The options that are chosen, and their values."""

    values: Mapping[str, tuple[Any, ...]]
    edge_attributes: bool = True
    """Whether edges have attributes; without any, what they cost does not matter."""

    def labels(self, name: str) -> list[str]:
        """Return the values of an option as JSON, which is how a study stores them."""
        return [json.dumps(value) for value in self.values[name]]

    def names(self, chosen: Choice) -> Iterator[str]:
        """Yield the options that matter, given what has been chosen when each is asked for."""
        for name in sorted(self.values, key=_order):
            if self._matters(name, chosen):
                yield name

    def _matters(self, name: str, chosen: Choice) -> bool:
        stage, _, option = name.partition(".")
        bits = json.loads(chosen.get("generate.options", '"111"'))
        learned = chosen.get("generate.bridges", '"learned"') == '"learned"'
        if stage == "bridge":
            attributes = self.edge_attributes or option != "attribute_weight"
            return bits != "100" and learned and attributes
        if stage == "extract":
            return bool(bits != "001")
        if stage == "train":
            learner = chosen.get("train.learner")
            return learner is None or matters(option, json.loads(learner))
        always = ("options", "ratio", "balanced")
        return stage != "generate" or option in always or option in _MOVING or bits != "100"

    def draw(self, stream: np.random.Generator) -> dict[str, str]:
        """Draw a choice, every value as likely as any other."""
        chosen: dict[str, str] = {}
        for name in self.names(chosen):
            labels = self.labels(name)
            chosen[name] = labels[int(stream.integers(len(labels)))]
        return chosen

    def all_choices(self) -> Iterator[dict[str, str]]:
        """Yield every choice there is, each once."""
        names = sorted(self.values, key=_order)

        def deeper(chosen: dict[str, str], depth: int) -> Iterator[dict[str, str]]:
            if depth == len(names):
                yield chosen
            elif self._matters(names[depth], chosen):
                for label in self.labels(names[depth]):
                    yield from deeper({**chosen, names[depth]: label}, depth + 1)
            else:
                yield from deeper(chosen, depth + 1)

        return deeper({}, 0)


def options_of(chosen: Choice, stage: str) -> dict[str, Any]:
    """Return what a choice says about the options of a stage."""
    return {
        name.partition(".")[2]: json.loads(label)
        for name, label in chosen.items()
        if name.startswith(f"{stage}.")
    }


def read_space(path: Path, method: str = "g-splice") -> Space:
    """Read a file of values; options it does not name keep the paper's for a method."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecipeError(f"no file {path}. Write one, or leave `--space` out.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path.name} is not TOML: {error}") from error
    how = METHODS[method]
    values, sections = dict(how.values), (*how.sections, "train")
    for section, options in document.items():
        if section not in SECTIONS or not isinstance(options, dict):
            guess = nearest(section, sections)
            raise RecipeError(f"{path.name}: `{section}` is no section that is tuned. {guess}")
        if section not in sections:
            has = ", ".join(f"[{each}]" for each in sections)
            raise RecipeError(f"{path.name}: {method} does not use [{section}]; it has {has}")
        for option, given in options.items():
            where = f"{path.name} [{section}]"
            if section == how.maker and option in how.fixed:
                said = json.dumps(how.fixed[option])
                raise RecipeError(f"{where}: `{option}` is {said} for {method}; leave it out")
            found = _values(section, option, given, where, how)
            values[f"{section}.{option}"] = found
    own = {f"train.{name}": each for name, each in sets_of(values["train.learner"]).items()}
    named = {f"train.{name}" for name in document.get("train", {})}
    return Space({**values, **{name: own[name] for name in own if name not in named}})


def _values(
    section: str, option: str, given: object, where: str, method: Method
) -> tuple[Any, ...]:
    """Return the values of an option, each checked by its stage as far as it can be alone."""
    fields = [
        field.name
        for field in msgspec.structs.fields(stage_named(section).config)
        if field.name not in KEPT_OUT
    ]
    if option in KEPT_OUT:
        raise RecipeError(f"{where}: `{option}` is not tuned; give it on the command line")
    if option not in fields:
        raise RecipeError(f"{where}: unknown option `{option}`. {nearest(option, fields)}")
    if not isinstance(given, list) or not given:
        raise RecipeError(
            f"{where}: `{option}` must be a list of values such as "
            f"[{_example(section, option, method)}]"
        )
    for value in given:
        try:
            parse_config(section, {**_reader(section, option, method), option: value}, where)
        except RecipeError:
            raise
        except GsxError as error:
            raise RecipeError(f"{where}: `{option}` = {json.dumps(value)}: {error}") from error
    labels = [json.dumps(value) for value in given]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise RecipeError(f"{where}: `{option}` lists {twice} twice")
    return tuple(given)


def _reader(section: str, option: str, method: Method) -> dict[str, Any]:
    """Return options without which a stage refuses one: a learner that reads it, the method."""
    if section == method.maker:
        return dict(method.fixed)
    if section != "train":
        return {}
    return next(({"learner": name} for name, kind in KINDS.items() if option in kind.fills), {})


def _example(section: str, option: str, method: Method) -> str:
    known = method.values.get(f"{section}.{option}")
    if known is None:
        reader = _reader(section, option, method)
        config = parse_config(section, reader, "") if reader else stage_named(section).config()
        known = (msgspec.to_builtins(getattr(config, option)),)
    return ", ".join(json.dumps(value) for value in known[:2])


def _order(name: str) -> tuple[int, int, str]:
    """Return the place of an option in the order of asking."""
    stage, _, option = name.partition(".")
    first = FIRST.get(stage, ())
    return SECTIONS.index(stage), first.index(option) if option in first else len(first), name
