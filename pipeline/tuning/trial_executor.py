"""Run the trials of a round: one after another in this process, or in parallel on workers."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from gsx import typed_values
from gsx.errors import PartialError, StoreError
from gsx.escape import redact_urls
from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.distributed.tasks import (
    OUT_OF_MEMORY,
    WORKER_LOST,
    Executor,
    ExecutorFactory,
    Job,
    Result,
    Task,
    TaskKind,
)
from gsx.pipeline.runner import OpenProgress
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_space import SECTIONS, Params
from gsx.pipeline.tuning.study import Trial
from gsx.pipeline.tuning.trial import SharedOptions, TrialResult, score_trial
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import EventLog
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.publish import draft_folder
from gsx.storage.artifacts.store import Artifact, Store

TRIALS = TaskKind("trial", "Finished trials are kept. ")
RunTrials = Callable[[Sequence[Trial]], Iterator[TrialResult]]
"""Runs trials and yields their results in the same order."""


@contextlib.contextmanager
def trial_executor(
    shared: SharedOptions,
    source: Artifact,
    store: Store,
    *,
    open_executor: ExecutorFactory | None,
    open_progress: OpenProgress,
    notify: Callable[[str], None],
) -> Iterator[RunTrials]:
    """Yield a function that runs trials; workers start with the first trials."""
    if open_executor is None:
        score = partial(
            score_trial,
            shared,
            source=source,
            store=store,
            open_progress=open_progress,
            notify=notify,
        )
        yield lambda trials: (score(params=trial.params) for trial in trials)
        return
    job = make_trial_job(shared, source, store)
    log = EventLog(draft_folder(store).parent / ".runs", job.key)
    executor: Executor | None = None
    with contextlib.ExitStack() as stack:

        def run_trials(trials: Sequence[Trial]) -> Iterator[TrialResult]:
            nonlocal executor
            if executor is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                executor = stack.enter_context(open_executor(job, Draft(Path(folder)), log))
            return run_trials_on(executor, trials, log)

        yield run_trials


def run_trials_on(
    executor: Executor, trials: Sequence[Trial], log: EventLog
) -> Iterator[TrialResult]:
    """Run trials on an executor and yield their results in the same order."""
    tasks = [
        Task(f"trial {trial.number}", json.dumps(trial.params), msgspec.json.encode(trial.params))
        for trial in trials
    ]
    early_results: dict[int, TrialResult] = {}
    next_number = 0
    for result in executor.map_unordered(run_trial_task, tasks, TRIALS):
        task, failure = tasks[result.number], result.failure
        if failure is not None and failure.kind in (OUT_OF_MEMORY, WORKER_LOST):
            raise PartialError(
                f"{task.name} ({task.description}): {failure.text} {TRIALS.kept_note.strip()}"
            )
        if failure is not None:
            raise failure.to_exception()
        trial_result = typed_values.decode_json(result.data, TrialResult)
        trial = trials[result.number]
        log.write(
            "trial", trial=trial.number, chosen=trial.params, score=trial_result.score,
            worker=result.worker, peak_mib=result.peak_mib, **trial_result.details,
        )  # fmt: skip
        early_results[result.number] = trial_result
        while next_number in early_results:
            yield early_results.pop(next_number)
            next_number += 1


def run_trial_task(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Run one trial on a worker; ``data`` is its params as JSON."""
    from gsx.pipeline.distributed.worker_tasks import run_task

    del scratch

    def run() -> Result:
        params = typed_values.decode_json(data, dict[str, str])
        return Result(number=number, data=msgspec.json.encode(_score_on_worker(job, params)))

    return run_task(number, run)


def _score_on_worker(data: bytes, params: Params) -> TrialResult:
    """Check that this worker has the client's code, packages and corpus, and run a trial."""
    from gsx.pipeline.distributed.worker_tasks import require_same_code, require_same_versions

    job = typed_values.decode_json(data, Job)
    require_same_versions(job)
    require_same_code(job, _code_digest())
    source = Artifact.open(Location.at(job.inputs["prepare"]))
    if source.manifest.digest != job.key:
        raise StoreError(
            "this worker finds a different corpus than the client at "
            f"{redact_urls(job.inputs['prepare'])}. All machines must reach the same store under "
            "the same name."
        )
    shared = typed_values.convert(job.config["shared"], SharedOptions)
    return score_trial(shared, params, source, Store.at(job.config["store"]))


def make_trial_job(shared: SharedOptions, source: Artifact, store: Store) -> Job:
    """Describe the trials of a study to workers."""
    from gsx.pipeline.distributed.worker_tasks import pinned_versions

    return Job(
        stage="tune",
        config={"shared": msgspec.to_builtins(shared), "store": store.location.absolute_url},
        inputs={"prepare": source.location.absolute_url},
        key=source.manifest.digest,
        source=_code_digest(),
        versions=pinned_versions(),
        draft="",
    )


def _code_digest() -> str:
    """Return the digest of the code of all stages of a trial."""
    return code_digest(stage_named(name).module for name in SECTIONS)
