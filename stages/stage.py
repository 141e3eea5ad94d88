"""What a stage is: a name, a version, a config, the artifacts it reads and the one it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gsx.stages.sharded_build import Workshop
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact


class Progress(Protocol):
    """Told how much is done and how much there is, and what else a person may want to see."""

    def __call__(self, done: int, total: int, note: str = "") -> None:  # noqa: D102
        ...


def silent(done: int, total: int, note: str = "") -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of the pipeline: reads artifacts, writes one artifact, keeps no other state."""

    name: str
    """As in a recipe, a manifest and on the command line."""
    version: int
    """Raised by hand when the same config must give another result."""
    kind: str
    """Kind of the artifact it writes."""
    config: type[Any]
    """Its options, a frozen struct."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Role of each artifact it may read, and the stage that makes it."""
    needs: Callable[[Any], frozenset[str]] | None = None
    """Which of the roles a config reads; all of them without it."""
    resolve: Callable[[Any], Any]
    """Fill in what the user left open and refuse what cannot work, before any long work starts."""
    preflight: Callable[[Any, Mapping[str, Artifact]], None] = lambda _config, _inputs: None
    """Refuse what cannot work with the inputs that are there already, before the others are made;
    reads descriptions only."""
    run: Callable[[Any, Mapping[str, Artifact], Draft, Progress], Outcome] | None = None
    """Write the artifact into a draft; None where a workshop does."""
    workshop: Callable[[Any, Mapping[str, Artifact]], Workshop] | None = None
    """Open what makes the artifact shard by shard, here or on workers."""
    seeds: Callable[[Any], Mapping[str, int]] = lambda _: {}
    """Root seeds it uses."""
    module: str
    """Module that defines it. The digest of the stage's code covers everything it imports."""
    raw_files: Callable[[Any], Mapping[str, Path]] = lambda _: {}
    """Raw files it reads, by name; their hashes are part of the key, their paths are not."""
    accept: Callable[[Any, Manifest], None] = lambda _config, _manifest: None
    """Refuse what was made before, where an option that is in no key does not take it."""
    places: tuple[str, ...] = ()
    """Options that say where something lies or runs on this machine: in no key, no manifest."""
    later: Mapping[str, Any] = field(default_factory=dict)
    """Options that came after the version, with the value that changes nothing: while they have
    it they are in no key, so that what was made before they came is found."""

    def inputs_of(self, config: Any) -> dict[str, str]:  # noqa: ANN401
        """Return the roles a config reads, and the stage that makes each."""
        roles = self.inputs.keys() if self.needs is None else self.needs(config)
        return {role: stage for role, stage in self.inputs.items() if role in roles}
