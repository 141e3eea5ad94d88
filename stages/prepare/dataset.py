"""Interface of a dataset family: names, metadata, options, and a function that opens a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsx.errors import UsageError, did_you_mean
from gsx.schema import CorpusInfo, Level
from gsx.stages.block_executor import BlockExecutor, ProcessExecutor
from gsx.stages.prepare.readers.raw_files import exists_as_file
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A raw file that a dataset is built from."""

    paths: tuple[str, ...]
    """Possible paths below the raw data directory; the first existing one is read."""
    what: str
    """Content and origin of the file, for error messages."""

    def find(self, folder: Path) -> tuple[str, Path] | None:
        """Return the name and path of the file below ``folder``; None if it does not exist."""
        for name in self.paths:
            if exists_as_file(folder / name):
                return name, folder / name
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMetadata:
    """Metadata of a dataset, available without reading any file."""

    shift: str
    """Domain that shifts between splits."""
    level: Level = "graph"
    counts: Mapping[str, int]
    """Published number of graphs (or nodes) of every split."""
    raw: tuple[RawFile, ...] = ()
    """Raw files; empty for synthetic datasets."""
    confirmation: bool = False
    """Whether recipes, options and networks must not be chosen on the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRequest:
    """Resolved options for opening a dataset."""

    name: str
    num_graphs: int | None
    """Number of graphs; None if the raw files determine it."""
    seed: int
    raw: Mapping[str, Path]
    """Name → path of every raw file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of this family, resolved."""
    executor: BlockExecutor = field(default_factory=ProcessExecutor)
    """Maps functions over blocks of raw data."""
    progress: Progress = ignore_progress
    """Called with the number of raw rows that were parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDataset:
    """An opened dataset, ready to be written shard by shard."""

    info: CorpusInfo
    split_sizes: Mapping[str, int]
    """Number of graphs of every split, without dropped graphs."""
    build: Callable[[str, int, int], GraphTable]
    """Return graphs ``start:stop`` of a split; safe to call from several threads."""
    dropped: tuple[Dropped, ...] = ()
    """Rows of the raw files that are not part of the corpus."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Additional entries of the manifest's summary."""


def resolve_options(
    name: str, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge ``options`` into ``defaults``; reject an option without a default."""
    for option in options:
        if option not in defaults:
            hint = did_you_mean(option, defaults) if defaults else "It has no options."
            raise UsageError(f"{name} has no option `{option}`. {hint}")
    return {**defaults, **options}


def reject_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Reject all options."""
    return resolve_options(name, options, {})


def reject_num_graphs(name: str, num_graphs: int | None) -> None:
    """Reject a number of graphs, for datasets whose raw files determine it."""
    if num_graphs is not None:
        raise UsageError(f"{name}: the raw files set the number of graphs. Remove num_graphs.")


def check_environments(name: str, environments: object, words: tuple[str, ...] = ()) -> None:
    """Reject an invalid number of environments; ``words`` are other allowed values."""
    if not isinstance(environments, int) or not 1 <= environments <= 1000:
        raise UsageError(
            f"{name}: environments must be an integer in 1..1000"
            f"{''.join(f' or `{word}`' for word in words)} (found {environments})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFamily:
    """Datasets that share one implementation."""

    names: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Alternative name → name."""
    listed: bool = True
    """Whether `gsx datasets` lists them; False for user data."""
    metadata: Callable[[str], DatasetMetadata]
    """Return the metadata of a dataset."""
    size: Callable[[str, int | None], int | None]
    """Resolve or reject the requested number of graphs."""
    options: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = reject_options
    """Resolve or reject the options that only some datasets have."""
    extra_files: Callable[[str, Mapping[str, Any]], dict[str, Path]] = lambda _name, _options: {}
    """Name → path of additional files that the options require."""
    open: Callable[[DatasetRequest], PreparedDataset]
    """Open a dataset: read its files, or plan its generation."""
