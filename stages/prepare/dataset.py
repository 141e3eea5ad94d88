"""What a family of datasets offers to `prepare`: names, what it needs, and the graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsx.errors import UsageError, nearest
from gsx.schema import CorpusInfo, Level
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A file that a user brings."""

    paths: tuple[str, ...]
    """Where it may lie under the folder of raw files; the first that is there is read."""
    what: str
    """What the file is and where it comes from."""

    def find(self, folder: Path) -> tuple[str, Path] | None:
        """Return the name and the path of the file under ``folder``; None when it is not there."""
        for name in self.paths:
            if (folder / name).is_file():
                return name, folder / name
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is known of a dataset before it is made."""

    shift: str
    """What shifts between splits."""
    level: Level = "graph"
    counts: Mapping[str, int]
    """Graphs (or nodes) of every split, as published."""
    raw: tuple[RawFile, ...] = ()
    """Files it is made from; none for datasets that are built in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of a family."""

    name: str
    num_graphs: int | None
    """As the family resolved it; None for datasets that have the size of their files."""
    seed: int
    raw: Mapping[str, Path]
    """Path of every raw file, by name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options, as the family resolved them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A dataset, ready to be written."""

    info: CorpusInfo
    split_sizes: Mapping[str, int]
    """Graphs of every split, dropped ones not counted."""
    build: Callable[[str, int, int], GraphTable]
    """Return graphs ``start:stop`` of a split; threads may call it side by side."""
    dropped: tuple[Dropped, ...] = ()
    """What the raw files hold but the corpus does not."""
    warnings: tuple[str, ...] = ()
    """What a user should know."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for the manifest."""


def resolve_options(
    name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return ``given`` over ``defaults``; refuse an option that has no default here."""
    for option in given:
        if option not in defaults:
            takes = nearest(option, defaults) if defaults else "It has none of its own."
            raise UsageError(f"{name} has no option `{option}`. {takes}")
    return {**defaults, **given}


def no_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse all options."""
    return resolve_options(name, given, {})


def size_of_files(name: str, num_graphs: int | None) -> None:
    """Refuse a number of graphs, for datasets whose files decide it."""
    if num_graphs is not None:
        raise UsageError(f"{name} has as many graphs as its raw files hold; leave out num_graphs.")


def check_environments(name: str, environments: object, words: tuple[str, ...] = ()) -> None:
    """Refuse a number of environments that is none."""
    if not isinstance(environments, int) or not 1 <= environments <= 1000:
        raise UsageError(
            f"{name}: environments must be a whole number in 1..1000"
            f"{''.join(f' or `{word}`' for word in words)}; got {environments}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Datasets made by the same code."""

    names: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names, and the name each stands for."""
    listed: bool = True
    """Whether these are datasets that are known before a user names files."""
    card: Callable[[str], Card]
    """Describe a dataset without reading anything."""
    size: Callable[[str, int | None], int | None]
    """Resolve the number of graphs that was asked for, or refuse it."""
    options: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = no_options
    """Resolve the options that only some datasets have, or refuse them."""
    more_files: Callable[[str, Mapping[str, Any]], dict[str, Path]] = lambda _name, _options: {}
    """Return files that options ask for beside those of the card, by name."""
    open: Callable[[Order], Source]
    """Read or plan a dataset."""
