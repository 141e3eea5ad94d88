"""Build all shards of an artifact, in this process or with an executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from gsx.errors import PartialError
from gsx.pipeline.distributed.tasks import OUT_OF_MEMORY, Executor, Failure, Result
from gsx.stages.sharded_build import ShardedBuild, ShardPlan, ShardStats
from gsx.stages.stage import Progress
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import EventLog
from gsx.storage.artifacts.publish import StageResult

MAX_INITIAL_FAILURES = 3
"""Failed shards after which a build stops, as long as no shard has succeeded."""
MAX_LISTED_FAILURES = 5
"""Failed shards that an error message lists; the log has all."""


def build_shards(
    sharded_build: ShardedBuild,
    draft: Draft,
    executor: Executor | None,
    progress: Progress,
    log: EventLog,
) -> StageResult:
    """Build every missing shard, then finish the artifact.

    A failed shard does not stop the others, unless all would fail. Without an executor, shards are
    built in this process.
    """
    plans = sharded_build.plans
    total_graphs = sum(plan.graphs for plan in plans)
    stats: dict[int, ShardStats] = {}
    failures: dict[int, Failure] = {}
    done_graphs = written_bytes = 0

    def show_progress() -> None:
        workers = ""
        if executor is not None:
            workers = f"{executor.num_workers} worker{'s' * (executor.num_workers != 1)}, "
        written = (
            f"{written_bytes / 1e6:.1f} MB"
            if written_bytes < 1e9
            else f"{written_bytes / 1e9:.1f} GB"
        )
        progress(done_graphs, total_graphs, f"{workers}{written}")

    log.write(
        "start",
        shards=len(plans),
        graphs=total_graphs,
        workers=executor.num_workers if executor else 0,
    )
    show_progress()
    results = (
        build_shards_locally(sharded_build, draft, plans)
        if executor is None
        else executor.build_shards(plans, show_progress)
    )
    for result in results:
        plan = plans[result.number]
        _log_shard(log, plan, result)
        if result.failure is None:
            stats[result.number] = result.stats
            for unit in result.units:
                draft.record(unit)
            written_bytes += result.size
            done_graphs += plan.graphs
        else:
            failures[result.number] = result.failure
            if _stop_after_failure(result.failure, built=len(stats), failed=len(failures)):
                break
        show_progress()
    if failures:
        log.write("end", state="partial", made=len(stats), failed=len(failures))
        raise _build_error(plans, failures, len(stats), log)
    outcome = sharded_build.finish(draft, [stats[n] for n in range(len(plans))], _reader(draft))
    log.write("end", state="done", bytes=written_bytes)
    return outcome


def build_shards_locally(
    sharded_build: ShardedBuild, draft: Draft, plans: Sequence[ShardPlan]
) -> Iterator[Result]:
    """Build shards in this process, one after another, and yield their results."""
    for number, plan in enumerate(plans):
        try:
            yield build_shard(sharded_build, plan, number, draft)
        except Exception as error:
            failure = Failure.of(error)
            if failure.affects_all_tasks:
                raise
            yield Result(number=number, failure=failure)


def build_shard(sharded_build: ShardedBuild, plan: ShardPlan, number: int, draft: Draft) -> Result:
    """Build one shard in this process."""
    started, files_before = time.perf_counter(), draft.record_stamps(plan.units)
    stats = sharded_build.build_shard(number, draft)
    return Result(
        number=number,
        stats=dict(stats),
        size=sum(
            entry.size for unit in draft.find_units(plan.units) for entry in unit.files.values()
        ),
        reused=bool(files_before) and draft.record_stamps(plan.units) == files_before,
        seconds=round(time.perf_counter() - started, 3),
    )


def _stop_after_failure(failure: Failure, *, built: int, failed: int) -> bool:
    """Return whether to stop the build after this failure: the remaining shards would fail too."""
    return failure.affects_all_tasks or (
        not built and (failed >= MAX_INITIAL_FAILURES or failure.kind == OUT_OF_MEMORY)
    )


def _build_error(
    plans: Sequence[ShardPlan], failures: Mapping[int, Failure], built: int, log: EventLog
) -> Exception:
    """Return the exception for a build with failed shards."""
    last = list(failures.values())[-1]
    if last.affects_all_tasks or (not built and last.trace):
        return last.to_exception()
    missing = len(plans) - built
    lines = [
        f"  {plans[n].name} ({plans[n].description}): {failure.kind}: {failure.text}"
        for n, failure in sorted(failures.items())[:MAX_LISTED_FAILURES]
    ]
    unlisted = len(failures) - MAX_LISTED_FAILURES
    return PartialError(
        "\n".join(
            [
                f"{missing} of {len(plans)} shards could not be built; finished shards are kept, "
                "nothing was published.",
                *lines,
                *([f"  and {unlisted} more"] if unlisted > 0 else []),
                f"See {log.path} for details. Fix the cause and run the same command again; only "
                "the missing shards are built.",
            ]
        )
    )


def _log_shard(log: EventLog, plan: ShardPlan, result: Result) -> None:
    state = "failed" if result.failure else "kept" if result.reused else "made"
    log.write(
        "shard",
        shard=plan.name,
        about=plan.description,
        state=state,
        graphs=plan.graphs,
        bytes=result.size,
        seconds=result.seconds,
        worker=result.worker,
        peak_mib=result.peak_mib,
        **({"failure": msgspec.to_builtins(result.failure)} if result.failure else {}),
    )


def _reader(draft: Draft) -> Callable[[str], bytes]:
    """Return a function that reads a finished file from the draft or from its upload target."""

    def read(name: str) -> bytes:
        path = draft.content / name
        if draft.target is None or path.exists():
            return path.read_bytes()
        return draft.target.read_bytes(name, limit=1 << 33)

    return read
