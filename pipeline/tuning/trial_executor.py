"""Trials of a round: one after another in this process, or at once by a crew."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from gsx.errors import PartialError, StoreError
from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.distributed.build_shards import (
    OUT_OF_MEMORY,
    WORKER_LOST,
    Crew,
    Hire,
    Job,
    Result,
    Sort,
    Task,
)
from gsx.pipeline.runner import Watch
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_space import SECTIONS, Choice
from gsx.pipeline.tuning.study import Trial
from gsx.pipeline.tuning.trial import Attempt, Common, attempt
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import RunLog
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.publish import draft_folder
from gsx.storage.artifacts.store import Artifact, Store

TRIALS = Sort("trial", "Finished trials are kept. ")
Attempts = Callable[[Sequence[Trial]], Iterator[Attempt]]
"""Tries some choices and yields how each ended, in their order."""


@contextlib.contextmanager
def trying(
    common: Common,
    source: Artifact,
    store: Store,
    *,
    hire: Hire | None,
    watch: Watch,
    say: Callable[[str], None],
) -> Iterator[Attempts]:
    """Open what tries choices; a crew is hired when the first ones come."""
    if hire is None:
        one = partial(attempt, common, source=source, store=store, watch=watch, say=say)
        yield lambda trials: (one(chosen=trial.chosen) for trial in trials)
        return
    job = _job(common, source, store)
    log = RunLog(draft_folder(store).parent / ".runs", job.key)
    crew: Crew | None = None
    with contextlib.ExitStack() as stack:

        def attempts(trials: Sequence[Trial]) -> Iterator[Attempt]:
            nonlocal crew
            if crew is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                crew = stack.enter_context(hire(job, Draft(Path(folder)), log))
            return attempts_by(crew, trials, log)

        yield attempts


def attempts_by(crew: Crew, trials: Sequence[Trial], log: RunLog) -> Iterator[Attempt]:
    """Have choices tried by a crew; yield how each ended, in their order."""
    tasks = [
        Task(f"trial {trial.number}", json.dumps(trial.chosen), msgspec.json.encode(trial.chosen))
        for trial in trials
    ]
    early: dict[int, Attempt] = {}
    turn = 0
    for result in crew.each(try_choice, tasks, TRIALS):
        task, failure = tasks[result.number], result.failure
        if failure is not None and failure.kind in (OUT_OF_MEMORY, WORKER_LOST):
            raise PartialError(f"{task.name} ({task.about}): {failure.text} {TRIALS.kept.strip()}")
        if failure is not None:
            raise failure.error()
        found = msgspec.json.decode(result.data, type=Attempt)
        log.write(
            "trial", trial=trials[result.number].number, chosen=trials[result.number].chosen,
            score=found.score, worker=result.worker, peak_mib=result.peak_mib, **found.facts,
        )  # fmt: skip
        early[result.number] = found
        while turn in early:
            yield early.pop(turn)
            turn += 1


def try_choice(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Try one choice where the crew is."""
    from gsx.pipeline.distributed.worker_tasks import answered

    del scratch

    def work() -> Result:
        chosen = msgspec.json.decode(data, type=dict[str, str])
        return Result(number=number, data=msgspec.json.encode(_attempt(job, chosen)))

    return answered(number, work)


def _attempt(data: bytes, chosen: Choice) -> Attempt:
    from gsx.pipeline.distributed.worker_tasks import require_source, require_versions

    job = msgspec.json.decode(data, type=Job)
    require_versions(job)
    require_source(job, _code())
    source = Artifact.open(Place.at(job.inputs["prepare"]))
    if source.manifest.digest != job.key:
        raise StoreError(
            f"this worker finds another corpus at {job.inputs['prepare']} than whoever asked. All "
            "machines must reach the same store by the same name."
        )
    common = msgspec.convert(job.config["common"], Common)
    return attempt(common, chosen, source, Store.at(job.config["store"]))


def _job(common: Common, source: Artifact, store: Store) -> Job:
    from gsx.pipeline.distributed.worker_tasks import decisive_versions

    return Job(
        stage="tune",
        config={"common": msgspec.to_builtins(common), "store": store.place.address},
        inputs={"prepare": source.place.address},
        key=source.manifest.digest,
        source=_code(),
        versions=decisive_versions(),
        draft="",
    )


def _code() -> str:
    """Return one hash over the code of all stages of a trial."""
    return code_digest(stage_named(name).module for name in SECTIONS)
