"""Run a plan: every step whose artifact is missing, in order, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import msgspec

from gsx.errors import StageError
from gsx.pipeline.distributed.build_shards import Hire, Job, fill, keep_memory
from gsx.pipeline.distributed.torch_ranks import follow, joined, lead, team_size
from gsx.pipeline.plan import Step, identity_of
from gsx.stages.sharded_build import Workshop
from gsx.stages.stage import Progress, silent
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import RunLog
from gsx.storage.artifacts.publish import Built, Identity, Outcome, build, draft_folder
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.worker_upload import records_of

Watch = Callable[[str], AbstractContextManager[Progress]]
"""Opens the display of one step's progress."""


def run_plan(
    plan: tuple[Step, ...],
    store: Store,
    *,
    given: Mapping[str, Artifact] | None = None,
    force: bool = False,
    watch: Watch = lambda _: nullcontext(silent),
    say: Callable[[str], None] = lambda _: None,
    hire: Hire | None = None,
) -> Iterator[tuple[Step, Built]]:
    """Run the steps in order and yield each with its artifact; what is there is not made again.

    ``given`` are artifacts that stand in for steps the plan does not have. ``hire`` opens a crew
    for steps that are made shard by shard; without it they are made in this process.
    """
    done = dict(given or {})
    with joined() if team_size() > 1 else nullcontext() as rank:
        for place, step in enumerate(plan):
            missing = [name for name in step.inputs.values() if name not in done]
            if missing:
                raise StageError(
                    f"{step.name} needs the artifact of {missing[0]}, which has not run"
                )
            inputs = {role: done[name] for role, name in step.inputs.items()}
            built = run_step(
                step,
                inputs,
                store,
                force=force,
                watch=watch,
                say=say,
                hire=hire,
                rank=rank,
                first=partial(look_ahead, plan[place:], done),
            )
            done[step.name] = built.artifact
            yield step, built


def look_ahead(plan: tuple[Step, ...], done: Mapping[str, Artifact]) -> None:
    """Refuse what steps could not do with the artifacts that are there, before others are made.

    The step that is next is asked too: no worker is hired for what it refuses. Until a corpus is
    made its source stands for it, which is described alike.
    """
    known = dict(done)
    for step in plan:
        there = {role: known[name] for role, name in step.inputs.items() if name in known}
        step.stage.preflight(step.config, there)
        if step.stage.kind == "corpus" and "corpus" in there:
            known[step.name] = there["corpus"]


def run_step(
    step: Step,
    inputs: Mapping[str, Artifact],
    store: Store,
    *,
    force: bool,
    watch: Watch,
    say: Callable[[str], None],
    hire: Hire | None = None,
    rank: int | None = None,
    first: Callable[[], None] = lambda: None,
) -> Built:
    """Run one step, or find what it made before; ``rank`` numbers processes that train together.

    ``first`` is asked before anything is made.
    """
    identity = identity_of(step, inputs)
    log = RunLog(draft_folder(store).parent / ".runs", identity.key)

    def produce(draft: Draft) -> Outcome:
        first()
        job = None if hire is None else _job(step, identity, inputs, store, draft)
        if step.stage.workshop is not None:
            shop = partial(step.stage.workshop, step.config, inputs)
            return _make_shards(shop, job, draft, progress, hire, log)
        if step.stage.run is None:
            raise TypeError(f"{step.name} has neither `run` nor `workshop`")
        with nullcontext() if hire is None or job is None else _readers(hire, job, draft, log):
            return step.stage.run(step.config, inputs, draft, progress)

    def making(produce: Callable[[Draft], Outcome]) -> Built:
        return build(store, identity, produce, force=force, on_wait=say)

    with watch(step.name) as progress:
        if rank is None:
            built = making(produce)
        elif rank == 0:
            built = lead(making, produce)
        else:
            return follow(step, identity, inputs, store)
    manifest = built.artifact.manifest
    step.stage.accept(step.config, manifest)
    if built.note:
        say(built.note)
    for warning in manifest.warnings:
        say(f"{step.name}: {warning}")
    for dropped in manifest.dropped:
        such = f", such as {dropped.examples[0]}" if dropped.examples else ""
        say(f"{step.name}: left out: {dropped.count:,} {dropped.reason}{such}")
    return built


def _make_shards(
    open_shop: Callable[[], Workshop],
    job: Job | None,
    draft: Draft,
    progress: Progress,
    hire: Hire | None,
    log: RunLog,
) -> Outcome:
    """Make an artifact shard by shard, in this process or by a crew."""
    if hire is None or job is None:
        keep_memory()
        return fill(open_shop(), draft, None, progress, log)
    # Reading the inputs here takes as long as workers take to start.
    with ThreadPoolExecutor(max_workers=1) as pool:
        opening = pool.submit(open_shop)
        with hire(job, draft, log) as crew:
            return fill(opening.result(), draft, crew, progress, log)


def _readers(hire: Hire, job: Job, draft: Draft, log: RunLog) -> AbstractContextManager[None]:
    from gsx.pipeline.distributed.map_blocks import (
        readers,  # only where there is a crew, for it loads much
    )

    return readers(hire, job, draft, log)


def _job(
    step: Step,
    identity: Identity,
    inputs: Mapping[str, Artifact],
    store: Store,
    draft: Draft,
) -> Job:
    from gsx.pipeline.distributed.worker_tasks import decisive_versions

    remote = store.place.local is None and draft.target is not None
    return Job(
        stage=step.name,
        config=msgspec.to_builtins(step.config),
        inputs={role: artifact.place.address for role, artifact in inputs.items()},
        key=identity.key,
        source=identity.source,
        versions=decisive_versions(),
        draft=str(draft.root),
        target=draft.target.url if remote and draft.target else None,
        records=records_of(store.place, identity.key).url if remote else None,
    )
