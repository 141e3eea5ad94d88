"""Definition of a stage: name, version, config, the artifacts it reads and the one it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gsx.stages.block_executor import BlockExecutor
from gsx.stages.sharded_build import ShardedBuild
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFiles


class Progress(Protocol):
    """Progress callback: items done, total number of items, optional note."""

    def __call__(self, done: int, total: int, note: str = "") -> None:  # noqa: D102
        ...


def ignore_progress(done: int, total: int, note: str = "") -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of the pipeline. It reads artifacts, writes one artifact and has no other state."""

    name: str
    """Name in recipes, in manifests and on the command line."""
    version: int
    """Increased manually when the same config must give a different result."""
    kind: str
    """Kind of the artifact that the stage writes."""
    config: type[Any]
    """Options of the stage, a frozen struct."""
    json_files: Callable[[], JsonFiles]
    """Return the types of all JSON files of the artifact. `gsx verify` reads them."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Role of each artifact that the stage may read → name of the stage that writes it."""
    required_roles: Callable[[Any], frozenset[str]] | None = None
    """Roles that a config reads; None: all of them."""
    resolve: Callable[[Any], Any]
    """Fill in defaults and reject invalid configs, before any long computation starts."""
    preflight: Callable[[Any, Mapping[str, Artifact]], None] = lambda _config, _inputs: None
    """Reject a config that does not work with the inputs that exist already, before the missing
    inputs are built. Reads corpus descriptions only."""
    run: Callable[[Any, Mapping[str, Artifact], Draft, Progress], StageResult] | None = None
    """Write the artifact into a draft. A stage has exactly one of `run`, `run_with_executor` and
    `open_sharded_build`."""
    run_with_executor: (
        Callable[[Any, Mapping[str, Artifact], Draft, Progress, BlockExecutor], StageResult] | None
    ) = None
    """Write the artifact into a draft, with an executor for blocks of raw data."""
    one_thread: bool = False
    """Whether `run` computes with one torch thread: for small batches, synchronization costs more
    than a second thread saves."""
    open_sharded_build: Callable[[Any, Mapping[str, Artifact]], ShardedBuild] | None = None
    """Load the inputs of a build that writes the artifact shard by shard, here or on workers."""
    seeds: Callable[[Any], Mapping[str, int]] = lambda _: {}
    """Root seeds that a config uses."""
    module: str
    """Module that defines the stage. The code digest covers everything this module imports."""
    raw_files: Callable[[Any], Mapping[str, Path]] = lambda _: {}
    """Raw files that a config reads, by name. Their hashes are part of the key, their paths are
    not."""
    check_reused: Callable[[Any, Manifest], None] = lambda _config, _manifest: None
    """Reject an existing artifact because of an option that is not part of the key."""
    local_options: tuple[str, ...] = ()
    """Options that describe this machine, such as paths and devices. They are not part of the key
    or the manifest."""
    added_options: Mapping[str, Any] = field(default_factory=dict)
    """Options added after the current version, with the value that keeps the old behavior. An
    option with this value is not part of the key, so that existing artifacts are still found."""

    def inputs_of(self, config: Any) -> dict[str, str]:  # noqa: ANN401
        """Return the roles that a config reads → name of the stage that writes the artifact."""
        roles = self.inputs.keys() if self.required_roles is None else self.required_roles(config)
        return {role: stage for role, stage in self.inputs.items() if role in roles}
