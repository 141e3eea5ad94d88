"""Run a plan: build the missing artifacts, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import partial

import msgspec

from gsx.errors import StageError
from gsx.pipeline.distributed.build_shards import build_shards
from gsx.pipeline.distributed.malloc import keep_freed_memory
from gsx.pipeline.distributed.tasks import ExecutorFactory, Job
from gsx.pipeline.distributed.torch_ranks import (
    build_on_other_rank,
    build_on_rank_zero,
    join_process_group,
    num_launched_processes,
)
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.run_stage import run_stage
from gsx.stages.block_executor import BlockExecutor, ProcessExecutor
from gsx.stages.sharded_build import ShardedBuild
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import EventLog
from gsx.storage.artifacts.in_use import hold
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.lineage_records import record_manifests
from gsx.storage.artifacts.publish import (
    BuildResult,
    Identity,
    StageResult,
    build_artifact,
    draft_folder,
)
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.worker_upload import upload_records
from gsx.storage.corpora.portable_copies import identity

OpenProgress = Callable[[str], AbstractContextManager[Progress]]
"""Opens the progress display of a step, given the name of the step."""


def run_plan(
    plan: tuple[Step, ...],
    store: Store,
    *,
    artifacts: Mapping[str, Artifact] | None = None,
    force: bool = False,
    open_progress: OpenProgress = lambda _: nullcontext(ignore_progress),
    notify: Callable[[str], None] = lambda _: None,
    open_executor: ExecutorFactory | None = None,
) -> Iterator[tuple[Step, BuildResult]]:
    """Run the steps in order and yield each with its artifact; existing artifacts are reused.

    ``artifacts`` replace steps that the plan does not have, by name of the step. ``notify`` prints
    a message to the user. ``open_executor`` starts the workers of steps that are built shard by
    shard; without it they are built in this process.
    """
    available = dict(artifacts or {})
    printed: set[str] = set()
    with join_process_group() if num_launched_processes() > 1 else nullcontext() as rank:
        for index, step in enumerate(plan):
            missing = [name for name in step.inputs.values() if name not in available]
            if missing:
                raise StageError(
                    f"{step.name} needs the artifact of {missing[0]}, which has not run"
                )
            inputs = {role: available[name] for role, name in step.inputs.items()}
            identity = identity_of(step, inputs)
            with open_progress(step.name) as progress, hold(inputs.values()):
                step_build = StepBuild(
                    step=step,
                    inputs=inputs,
                    store=store,
                    identity=identity,
                    preflight=partial(run_preflight_checks, plan[index:], available),
                    progress=progress,
                    open_executor=open_executor,
                )
                build = partial(build_artifact, store, identity, force=force, on_wait=notify)
                if rank is None:
                    built = build(step_build.write)
                elif rank == 0:
                    built = build_on_rank_zero(build, step_build.write)
                else:
                    built = build_on_other_rank(step, identity, inputs, store)
            if not rank:
                _record_inputs(store, inputs)
                step.stage.check_reused(step.config, built.artifact.manifest)
                _report(step, built, notify, printed)
            available[step.name] = built.artifact
            yield step, built


def _record_inputs(store: Store, inputs: Mapping[str, Artifact]) -> None:
    """Record the manifests of inputs outside of the store, and of their ancestors."""
    for artifact in inputs.values():
        if not store.contains(artifact):
            manifests = {m.digest: m for m in lineage_manifests(store, artifact)}
            manifests.pop(artifact.manifest.digest)
            own = identity(artifact)
            record_manifests(store.location, {**manifests, own.digest: own}.values())


def run_preflight_checks(plan: tuple[Step, ...], artifacts: Mapping[str, Artifact]) -> None:
    """Reject steps that cannot work with the existing artifacts, before others are built.

    This includes the next step, so that no worker starts for a step that is rejected. A corpus that
    does not exist yet is replaced by its source, which has the same description.
    """
    available = dict(artifacts)
    for step in plan:
        inputs = {role: available[name] for role, name in step.inputs.items() if name in available}
        step.stage.preflight(step.config, inputs)
        if step.stage.kind == "corpus" and "corpus" in inputs:
            available[step.name] = inputs["corpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBuild:
    """The build of one step's artifact."""

    step: Step
    inputs: Mapping[str, Artifact]
    store: Store
    identity: Identity
    preflight: Callable[[], None]
    """Checks to run before anything is computed."""
    progress: Progress
    open_executor: ExecutorFactory | None

    def write(self, draft: Draft) -> StageResult:
        """Write the artifact into a draft, in this process or on workers."""
        self.preflight()
        stage = self.step.stage
        if stage.open_sharded_build is not None:
            open_build = partial(stage.open_sharded_build, self.step.config, self.inputs)
            return self._write_shards(open_build, draft)
        if stage.run_with_executor is not None:
            with self._block_executor(draft) as executor:
                return stage.run_with_executor(
                    self.step.config, self.inputs, draft, self.progress, executor
                )
        return run_stage(stage, self.step.config, self.inputs, draft, self.progress)

    def _write_shards(self, open_build: Callable[[], ShardedBuild], draft: Draft) -> StageResult:
        """Write the artifact shard by shard."""
        log = self._event_log()
        if self.open_executor is None:
            keep_freed_memory()
            return build_shards(open_build(), draft, None, self.progress, log)
        # Load the inputs while the workers start: both take about the same time.
        with ThreadPoolExecutor(max_workers=1) as pool:
            opening = pool.submit(open_build)
            with self.open_executor(self._job(draft), draft, log) as executor:
                return build_shards(opening.result(), draft, executor, self.progress, log)

    def _block_executor(self, draft: Draft) -> AbstractContextManager[BlockExecutor]:
        """Open the executor for blocks of raw data: Dask workers, or local processes."""
        if self.open_executor is None:
            return closing(ProcessExecutor())
        from gsx.pipeline.distributed.map_blocks import dask_block_executor  # many imports

        log = self._event_log()
        open_executor = partial(self.open_executor, self._job(draft), draft, log)
        return dask_block_executor(open_executor, log)

    def _event_log(self) -> EventLog:
        return EventLog(draft_folder(self.store).parent / ".runs", self.identity.key)

    def _job(self, draft: Draft) -> Job:
        """Describe the build to workers."""
        from gsx.pipeline.distributed.worker_tasks import pinned_versions

        key, store = self.identity.key, self.store.location
        remote = store.local is None and draft.target is not None
        return Job(
            stage=self.step.name,
            config=msgspec.to_builtins(self.step.config),
            inputs={role: artifact.location.absolute_url for role, artifact in self.inputs.items()},
            key=key,
            source=self.identity.source,
            versions=pinned_versions(),
            draft=str(draft.root),
            target=draft.target.url if remote and draft.target else None,
            records=upload_records(store, key).url if remote else None,
        )


def _report(
    step: Step, built: BuildResult, notify: Callable[[str], None], printed: set[str]
) -> None:
    """Print the notes and warnings of an artifact, but no warning twice.

    A generated corpus repeats the warnings about the splits of its source.
    """
    manifest = built.artifact.manifest
    if built.note:
        notify(built.note)
    for warning in manifest.warnings:
        if warning not in printed:
            notify(f"{step.name}: {warning}")
    printed.update(manifest.warnings)
    for dropped in manifest.dropped:
        example = f", such as {dropped.examples[0]}" if dropped.examples else ""
        notify(f"{step.name}: left out: {dropped.count:,} {dropped.reason}{example}")
