"""Hyper-parameters of all algorithms: fields of ``TrainConfig`` and options of ``gsx train``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gsx.errors import UsageError
from gsx.stages.train.algorithms import ALGORITHMS, algorithm_named
from gsx.stages.train.algorithms.base import Algorithm, Option


@dataclass(frozen=True, slots=True)
class SharedOption:
    """A hyper-parameter with the algorithms that use it."""

    name: str
    by_algorithm: Mapping[str, Option[int] | Option[float]]
    """Algorithm → its declaration, with its default."""

    def _declaration(self) -> Option[int] | Option[float]:
        """Return the declaration of the first algorithm; type, bounds and help are shared."""
        return next(iter(self.by_algorithm.values()))

    @property
    def type(self) -> type[int] | type[float]:
        """Type of the values."""
        return type(self._declaration().default)

    @property
    def nullable(self) -> bool:
        """Whether ``TrainConfig`` holds None until ``resolve`` fills in the default."""
        return self._declaration().nullable

    @property
    def config_default(self) -> float | None:
        """Default of the field of ``TrainConfig``."""
        return None if self.nullable else self._declaration().default

    @property
    def help(self) -> str:
        """Help text: the algorithms that use the option, its meaning and its defaults."""
        if self.name == Algorithm.penalty.name:
            help_text, common = Algorithm.penalty.help, Algorithm.penalty.default
            text = help_text[0].upper() + help_text[1:]
        else:
            common = self._declaration().default
            text = f"{', '.join(self.by_algorithm)}: {self._declaration().help}"
        return f"{text}.  [default: {self._defaults(common)}]"

    def _defaults(self, common: float) -> str:
        """Return the common default, then others with the algorithms that have them."""
        others: dict[float, list[str]] = {}
        for algorithm, option in self.by_algorithm.items():
            if option.default != common:
                others.setdefault(option.default, []).append(algorithm)
        texts = [f"{value:g} for {', '.join(names)}" for value, names in others.items()]
        return "; ".join([f"{common:g}", *texts])

    def check(self, value: float) -> None:
        """Raise a ``UsageError`` if a value is out of bounds."""
        bounds = self._declaration().bounds
        if not bounds.allows(value):
            raise UsageError(f"{self.name} must {bounds.requirement}; got {value}")


def _shared_options() -> dict[str, SharedOption]:
    declared: dict[str, dict[str, Option[int] | Option[float]]] = {}
    for algorithm in ALGORITHMS:
        for name, option in algorithm.options().items():
            declared.setdefault(name, {})[algorithm.name] = option
    return {name: SharedOption(name, options) for name, options in declared.items()}


OPTIONS: dict[str, SharedOption] = _shared_options()
"""All hyper-parameters of algorithms, by name."""


def config_fields() -> list[tuple[str, Any, Any]]:
    """Return name, type and default of the fields that ``TrainConfig`` has for algorithms."""
    return [
        (name, option.type | None if option.nullable else option.type, option.config_default)
        for name, option in OPTIONS.items()
    ]


def resolve_options(algorithm: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in defaults for None and check bounds; reject options the algorithm does not use.

    Options that are not nullable, and ``penalty``, are accepted with every algorithm.
    """
    own = {"penalty": Algorithm.penalty, **algorithm_named(algorithm).options()}
    resolved: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        value = values[name]
        if value is None:
            value = own[name].default if name in own else None
        elif name not in own and option.nullable:
            users = ", ".join(f"`{user}`" for user in option.by_algorithm)
            raise UsageError(
                f"{name} is an option of {users}, not of `{algorithm}`. Remove it, or use another "
                "algorithm."
            )
        if value is not None:
            option.check(value)
        resolved[name] = value
    return resolved


def hyperparameters(algorithm: str, config: object) -> dict[str, Any]:
    """Return the hyper-parameters that an algorithm uses, with values of a ``TrainConfig``."""
    options = algorithm_named(algorithm).options()
    values = {name: getattr(config, name) for name in options}
    return {
        name: options[name].default if value is None else value for name, value in values.items()
    }


def uses_option(algorithm: str, name: str) -> bool:
    """Return whether a field of ``TrainConfig`` affects training with an algorithm."""
    return name not in OPTIONS or algorithm in OPTIONS[name].by_algorithm


def search_grid(algorithms: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Return the values that the paper searches for some algorithms, by option."""
    grid: dict[str, dict[Any, None]] = {}
    for algorithm in algorithms:
        for name, option in algorithm_named(algorithm).options().items():
            if option.search:
                grid.setdefault(name, {}).update(dict.fromkeys(option.search))
    return {name: tuple(values) for name, values in grid.items()}
