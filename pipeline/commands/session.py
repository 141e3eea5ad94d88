"""Run plans for a command: reuse or build artifacts, report them, and copy the last one out.

A session holds what all commands need: the store, the workers, and callbacks that print. The
command line and the Python API open one per call; nothing here prints.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gsx.pipeline.distributed.cluster_options import ClusterOptions
from gsx.pipeline.plan import Status, Step, inspect_plan
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import OpenProgress, run_plan, run_preflight_checks
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tagging import check_new_tag, tag_artifact
from gsx.stages.stage import ignore_progress
from gsx.storage.artifacts.publish import BuildResult
from gsx.storage.artifacts.store import Artifact, Store

Notify = Callable[[str], None]
WriteCopy = Callable[[Artifact, Path, Store], Path]
"""Writes an artifact to a directory in another layout, and returns the directory."""


class StepResult(NamedTuple):
    """The artifact of one step."""

    name: str
    built: BuildResult
    path: str
    """Where the artifact is, or its copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where the artifacts of a command are, who computes, and how it reports."""

    store: Store
    force: bool = False
    """Build a new generation of artifacts that exist."""
    tag: str | None = None
    """Tag of the last artifact."""
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    notify: Notify = lambda _: None
    """Prints a message to the user."""
    open_progress: OpenProgress = lambda _: nullcontext(ignore_progress)
    on_step: Callable[[StepResult], None] = lambda _: None
    """Receives every artifact as soon as it exists."""
    on_plan: Callable[[Store, Sequence[Status]], None] | None = None
    """Makes the command a dry run: receives the steps of a plan, and nothing is built."""

    @property
    def is_dry_run(self) -> bool:
        """Whether plans are printed instead of run."""
        return self.on_plan is not None

    def without_tag(self) -> Session:
        """Return a session for artifacts that do not get the tag."""
        return replace(self, tag=None)

    def run_plan(
        self,
        plan: tuple[Step, ...],
        artifacts: Mapping[str, Artifact],
        out: str | Path | None = None,
        write_copy: WriteCopy | None = None,
    ) -> list[StepResult]:
        """Run a plan and return the results of its steps; a dry run returns nothing.

        The last artifact is also written to ``out``: by ``write_copy``, or as an exact copy.
        """
        if self.tag is not None:
            check_new_tag(self.tag)
        if self.on_plan is not None:
            run_preflight_checks(plan, artifacts)
            self.on_plan(self.store, inspect_plan(plan, self.store, artifacts))
            return []
        results = []
        for step, built in run_plan(
            plan,
            self.store,
            artifacts=artifacts,
            force=self.force,
            open_progress=self.open_progress,
            notify=self.notify,
            open_executor=self.cluster.executor_factory(self.notify),
        ):
            path = built.artifact.location.url
            if out is not None and step is plan[-1]:
                path = _copy_out(built.artifact, str(out), self.store, write_copy)
            results.append(StepResult(step.name, built, path))
            self.on_step(results[-1])
        self._tag_last(results)
        return results

    def run_stage(
        self,
        name: str,
        options: Mapping[str, Any],
        artifacts: Mapping[str, Artifact],
        out: str | Path | None = None,
    ) -> StepResult | None:
        """Run one stage on artifacts and return the result; None for a dry run."""
        stage = stage_named(name)
        config = parse_config(name, options, f"gsx {name}")
        plan = (Step(stage, config, stage.inputs_of(config)),)
        results = self.run_plan(plan, artifacts, out)
        return results[0] if results else None

    def reuse(
        self,
        name: str,
        artifact: Artifact,
        out: str | Path | None = None,
        write_copy: WriteCopy | None = None,
    ) -> list[StepResult]:
        """Return an existing artifact as the result of a step, and copy it to ``out``."""
        path = artifact.location.url
        if out is not None:
            path = _copy_out(artifact, str(out), self.store, write_copy)
        results = [StepResult(name, BuildResult(artifact, reused=True), path)]
        self.on_step(results[0])
        self._tag_last(results)
        return results

    def _tag_last(self, results: Sequence[StepResult]) -> None:
        """Give the last artifact the tag of the session."""
        if self.tag is None or not results:
            return
        previous = tag_artifact(self.store, results[-1].built.artifact, self.tag, replace=True)
        if previous is not None:
            self.notify(f"the tag `{self.tag}` was moved from {previous.text}")


def _copy_out(artifact: Artifact, out: str, store: Store, write_copy: WriteCopy | None) -> str:
    """Write a copy of an artifact to a directory or a URL and return its address."""
    from gsx.storage.sharing.copy_out import copy_artifact, upload_copy

    if "://" not in out:
        if write_copy is None:
            return str(copy_artifact(artifact, Path(out)))
        return str(write_copy(artifact, Path(out), store))
    if write_copy is None:
        return upload_copy(artifact, out)
    with tempfile.TemporaryDirectory() as folder:
        copied = write_copy(artifact, Path(folder) / "copy", store)
        return upload_copy(store.resolve(str(copied)), out)
