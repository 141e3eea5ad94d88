"""Search space: the values that tuning tries for options of stages.

```toml
[generate]
options = ["011", "111"]
f = [[2, 4], [2, 8]]
ratio = [1.0]

[train]
learner = ["vrex"]
penalty = [1, 10]
```

Without a file, the values are those that the paper searches for a method. A file replaces the
values of the options it names. Other options keep their values; options of training algorithms get
the values that the paper searches for the named algorithms. A list of one value fixes an option.
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

from gsx.errors import GsxError, RecipeError, did_you_mean
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_presets import FEATX_VALUES, METHODS, TuningMethod
from gsx.stages.train.algorithms.options import OPTIONS, search_grid, uses_option

SECTIONS = ("generate", "augment", "bridge", "extract", "mask", "train")
"""Stages with tunable options; stages whose options decide which others matter come first."""
DECIDING_OPTIONS = {"generate": ("options", "bridges"), "train": ("learner",)}
"""Options that decide which others matter. They are chosen first."""
NOT_TUNABLE = ("seed", "source", "device", "formats", "shard_graphs", "augmented_only")
"""Options that do not change what a model learns, or that trials set themselves."""

_FEATX_OPTIONS = tuple(name.partition(".")[2] for name in FEATX_VALUES)
_NEEDED_BITS = {"grow": 1, "fragments": 1, "ports": 1, "labels": 2}
"""Option of splicing → position of the bit of `options` without which it has no effect."""
Params = Mapping[str, str]
"""Option, as ``stage.option`` → its value as JSON."""


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The tuned options and their values."""

    values: Mapping[str, tuple[Any, ...]]
    edge_attributes: bool = True
    """Whether edges have attributes. If not, the weight of attributes does not matter."""

    def encoded_values(self, name: str) -> list[str]:
        """Return the values of an option as JSON, which is how a study stores them."""
        return [json.dumps(value) for value in self.values[name]]

    def active_options(self, params: Params) -> Iterator[str]:
        """Yield the options that matter, in the order of choosing.

        ``params`` may grow during the iteration: each option is tested when it is reached.
        """
        for name in sorted(self.values, key=_rank):
            if self._is_active(name, params):
                yield name

    def _is_active(self, name: str, params: Params) -> bool:
        """Return whether an option has an effect, given the options chosen so far."""
        stage, _, option = name.partition(".")
        bits = json.loads(params.get("generate.options", '"111"'))
        learned_bridges = params.get("generate.bridges", '"learned"') == '"learned"'
        if stage == "bridge":
            has_effect = self.edge_attributes or option != "attribute_weight"
            return bits != "100" and learned_bridges and has_effect
        if stage == "extract":
            return bool(bits != "001")
        if stage == "train":
            algorithm = params.get("train.learner")
            return algorithm is None or uses_option(json.loads(algorithm), option)
        if stage == "generate" and option in _NEEDED_BITS:
            connected = params.get("generate.bridges") != '"none"'
            return bits[_NEEDED_BITS[option]] == "1" and (connected or option == "labels")
        always = ("options", "ratio", "balanced")
        return stage != "generate" or option in always or option in _FEATX_OPTIONS or bits != "100"

    def sample(self, stream: np.random.Generator) -> dict[str, str]:
        """Draw params uniformly, option by option."""
        params: dict[str, str] = {}
        for name in self.active_options(params):
            values = self.encoded_values(name)
            params[name] = values[int(stream.integers(len(values)))]
        return params

    def all_params(self) -> Iterator[dict[str, str]]:
        """Yield every combination of values once."""
        names = sorted(self.values, key=_rank)

        def extend(params: dict[str, str], depth: int) -> Iterator[dict[str, str]]:
            if depth == len(names):
                yield params
            elif self._is_active(names[depth], params):
                for value in self.encoded_values(names[depth]):
                    yield from extend({**params, names[depth]: value}, depth + 1)
            else:
                yield from extend(params, depth + 1)

        return extend({}, 0)


def stage_options(params: Params, stage: str) -> dict[str, Any]:
    """Return the options of one stage, decoded."""
    return {
        name.partition(".")[2]: json.loads(value)
        for name, value in params.items()
        if name.startswith(f"{stage}.")
    }


def read_search_space(path: Path, method_name: str = "g-splice") -> SearchSpace:
    """Read a TOML file of values; options that it does not name keep the values of the method."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecipeError(f"no file {path}. Write one, or leave `--space` out.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # also integers of many digits, deep nesting
        raise RecipeError(f"{path.name} is not TOML: {error}") from error
    method = METHODS[method_name]
    values, sections = dict(method.values), (*method.sections, "train")
    for section, options in document.items():
        if section not in SECTIONS or not isinstance(options, dict):
            raise RecipeError(
                f"{path.name}: `{section}` is not a section that can be tuned. "
                f"{did_you_mean(section, sections)}"
            )
        if section not in sections:
            allowed = ", ".join(f"[{name}]" for name in sections)
            raise RecipeError(
                f"{path.name}: {method_name} does not use [{section}]; it uses {allowed}"
            )
        for option, listed in options.items():
            where = f"{path.name} [{section}]"
            if section == method.corpus_stage and option in method.fixed:
                fixed = json.dumps(method.fixed[option])
                raise RecipeError(
                    f"{where}: `{option}` is always {fixed} for {method_name}; leave it out"
                )
            values[f"{section}.{option}"] = _checked_values(section, option, listed, where, method)
    algorithm_values = {
        f"train.{name}": listed for name, listed in search_grid(values["train.learner"]).items()
    }
    named = {f"train.{name}" for name in document.get("train", {})}
    return SearchSpace(
        {**values, **{n: listed for n, listed in algorithm_values.items() if n not in named}}
    )


def _checked_values(
    section: str, option: str, values: object, where: str, method: TuningMethod
) -> tuple[Any, ...]:
    """Return the values of an option; its stage has checked each of them separately."""
    fields = [
        field.name
        for field in msgspec.structs.fields(stage_named(section).config)
        if field.name not in NOT_TUNABLE
    ]
    if option in NOT_TUNABLE:
        raise RecipeError(f"{where}: `{option}` cannot be tuned; give it on the command line")
    if option not in fields:
        raise RecipeError(f"{where}: unknown option `{option}`. {did_you_mean(option, fields)}")
    if not isinstance(values, list) or not values:
        raise RecipeError(
            f"{where}: `{option}` must be a list of values such as "
            f"[{_example(section, option, method)}]"
        )
    for value in values:
        try:
            parse_config(section, {**_required(section, option, method), option: value}, where)
        except RecipeError:
            raise
        except GsxError as error:
            raise RecipeError(f"{where}: `{option}` = {json.dumps(value)}: {error}") from error
    encoded = [json.dumps(value) for value in values]
    repeated = next((value for value in encoded if encoded.count(value) > 1), None)
    if repeated is not None:
        raise RecipeError(f"{where}: `{option}` lists {repeated} twice")
    return tuple(values)


def _required(section: str, option: str, method: TuningMethod) -> dict[str, Any]:
    """Return the options without which a stage rejects ``option``.

    These are the fixed options of the method, or an algorithm that uses the option.
    """
    if section == method.corpus_stage:
        return dict(method.fixed)
    if section != "train":
        return {}
    algorithms = OPTIONS[option].by_algorithm if option in OPTIONS else ()
    return {"learner": name} if (name := next(iter(algorithms), None)) else {}


def _example(section: str, option: str, method: TuningMethod) -> str:
    """Return one or two valid values of an option, for an error message."""
    values = method.values.get(f"{section}.{option}")
    if values is None:
        required = _required(section, option, method)
        config = parse_config(section, required, "") if required else stage_named(section).config()
        values = (msgspec.to_builtins(getattr(config, option)),)
    return ", ".join(json.dumps(value) for value in values[:2])


def _rank(name: str) -> tuple[int, int, str]:
    """Return the sort key of an option in the order of choosing."""
    stage, _, option = name.partition(".")
    first = DECIDING_OPTIONS.get(stage, ())
    return SECTIONS.index(stage), first.index(option) if option in first else len(first), name
