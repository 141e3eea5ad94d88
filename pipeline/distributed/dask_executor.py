"""Submit tasks to Dask workers, track them, and retry tasks whose worker died.

Every worker thread has one task at a time, so that the loss of a worker counts against one task
only. A task sends and returns plain bytes, usually few: workers write shards themselves, so that
weights, corpora and credentials never pass through the scheduler. The retry policy is in
`retry.py`.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

import dask
import distributed
import msgspec
from distributed.scheduler import KilledWorker

from gsx import typed_values
from gsx.errors import PartialError
from gsx.pipeline.distributed.retry import TaskAttempts
from gsx.pipeline.distributed.tasks import (
    OUT_OF_MEMORY,
    SHARDS,
    WORKER_LOST,
    Failure,
    Job,
    Result,
    Task,
    TaskFunction,
    TaskKind,
)
from gsx.pipeline.distributed.worker_tasks import build_shard_task
from gsx.stages.sharded_build import ShardPlan
from gsx.storage.artifacts.event_log import EventLog

RESTART_TIMEOUT = 60.0
"""Seconds to wait for a new worker after one exceeded its memory limit."""
NO_WORKER_TIMEOUT = 300.0
"""Seconds without any worker after which a run ends."""

Numbered = tuple[int, Task]
Finished = tuple[int, Any]
"""Number of a task and its future."""


class DaskExecutor:
    """Executor that runs tasks on the workers of a Dask client."""

    def __init__(
        self,
        client: distributed.Client,
        job: Job,
        log: EventLog,
        overflowed_pids: set[int],
        notify: Callable[[str], None],
    ) -> None:
        self._client, self._job, self._log = client, msgspec.json.encode(job), log
        self._address = client.scheduler_info()["address"]
        self._overflowed_pids, self._notify = overflowed_pids, notify
        self._threads: dict[str, int] = dict(client.nthreads())
        self._workers_counted_at = 0.0
        self._no_workers_since: float | None = None
        self._overflow_message = ""
        """Message about the last worker that exceeded its memory limit."""

    @property
    def num_workers(self) -> int:
        """Current number of workers."""
        return len(self._threads)

    def build_shards(
        self, plans: Sequence[ShardPlan], on_progress: Callable[[], None]
    ) -> Iterator[Result]:
        """Yield the result of every shard, in the order in which they finish."""
        tasks = (Task(plan.name, plan.description) for plan in plans)
        return self.map_unordered(build_shard_task, tasks, SHARDS, on_progress)

    def map_unordered(
        self,
        function: TaskFunction,
        tasks: Iterable[Task],
        kind: TaskKind,
        on_progress: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        """Yield the result of every task, in the order in which they finish.

        Tasks are consumed lazily, when a worker is free.
        """
        new_tasks, retries = enumerate(tasks), deque[Numbered]()
        finished: SimpleQueue[Finished] = SimpleQueue()
        running: dict[int, tuple[Task, Any]] = {}
        attempts: defaultdict[int, TaskAttempts] = defaultdict(TaskAttempts)
        results: list[Result] = []
        try:
            while True:
                self._count_workers(len(running), kind)
                free = max(sum(self._threads.values()), 1) - len(running)
                next_tasks = list(islice(_retries_first(retries, new_tasks), max(free, 0)))
                running |= self._submit(function, next_tasks, kind.name, finished)
                yield from results  # while the workers are busy again
                results = []
                if not running:
                    return
                for number, future, data in self._gather(list(_all_finished(finished))):
                    task, _ = running.pop(number)
                    result = self._result(number, future, data, task, kind, attempts[number])
                    future.release()
                    if result is None:
                        retries.append((number, task))
                    else:
                        del attempts[number]
                        results.append(result)
                on_progress()
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone, and its tasks with it
                self._client.cancel([future for _, future in running.values()])

    def _submit(
        self,
        function: TaskFunction,
        tasks: Sequence[Numbered],
        kind: str,
        finished: SimpleQueue[Finished],
    ) -> dict[int, tuple[Task, Any]]:
        """Submit tasks in one message, which costs the scheduler no more than a single task."""
        if not tasks:
            return {}
        # Every submission has new keys: a worker that was declared dead must not answer a retry.
        submission = secrets.token_hex(4)
        futures = self._client.map(
            run_in_worker,
            [number for number, _ in tasks],
            [task.data for _, task in tasks],
            key=[f"{kind}-{number}-{submission}" for number, _ in tasks],
            pure=False,
            function=function,
            job=self._job,
        )
        for (number, _), future in zip(tasks, futures, strict=True):
            future.add_done_callback(lambda done, number=number: finished.put((number, done)))
        return {number: (task, f) for (number, task), f in zip(tasks, futures, strict=True)}

    def _gather(self, finished: list[Finished]) -> Iterator[tuple[int, Any, bytes | None]]:
        """Yield number, future and returned data of finished tasks; None if fetching fails."""
        successful = [future for _, future in finished if future.status == "finished"]
        data_by_key: dict[str, bytes] = {}
        with contextlib.suppress(Exception):  # then each future is fetched alone
            returned = self._client.gather(successful)
            data_by_key = {f.key: data for f, data in zip(successful, returned, strict=True)}
        for number, future in finished:
            yield number, future, data_by_key.get(future.key)

    def _result(
        self,
        number: int,
        future: Any,  # noqa: ANN401
        data: bytes | None,
        task: Task,
        kind: TaskKind,
        attempts: TaskAttempts,
    ) -> Result | None:
        """Return the result of a finished task; None if it must run again."""
        try:
            encoded = future.result() if data is None else data
            result = typed_values.decode_msgpack(encoded, Result)
        except KilledWorker as error:
            return self._result_of_lost_worker(number, error, task, kind, attempts)
        except (CancelledError, OSError, distributed.client.FutureCancelledError) as error:
            raise PartialError(
                f"lost the connection to the scheduler at {self._address} ({error}). "
                f"{kind.kept_note}Restart the scheduler and run the same command to resume."
            ) from error
        if result.failure is not None and attempts.retry_after_failure(result.failure):
            return None
        return result

    def _result_of_lost_worker(
        self, number: int, error: KilledWorker, task: Task, kind: TaskKind, attempts: TaskAttempts
    ) -> Result | None:
        """Log the loss of a worker and return a failure; None if the task must run again."""
        worker = error.last_worker
        overflow = worker.pid in self._overflowed_pids
        retry = attempts.retry_after_loss(error.allowed_failures + 1, out_of_memory=overflow)
        self._log.write(
            "lost", **{kind.name: task.name}, worker=worker.address, out_of_memory=overflow,
            memory_limit=worker.memory_limit,
        )  # fmt: skip
        limit = dask.utils.format_bytes(worker.memory_limit)
        if overflow:
            advice = "Raise --memory-limit"
            text = f"its worker exceeded its memory limit of {limit}. " + (
                f"{advice}, or {kind.memory_hint}." if kind.memory_hint else f"{advice}."
            )
            self._overflow_message = f"{task.name} ({task.description}): {text}"
        else:
            text = (
                f"{attempts.losses} workers were lost while running it, the last one at "
                f"{worker.address}, with a memory limit of {limit}."
                + (f" If that was too little, {kind.memory_hint}." if kind.memory_hint else "")
            )
        if retry:
            return None
        failure = Failure(kind=OUT_OF_MEMORY if overflow else WORKER_LOST, text=text)
        return Result(number=number, failure=failure, worker=worker.address)

    def _count_workers(self, num_running: int, kind: TaskKind) -> None:
        """Update the number of workers once per second; end the run if there are none for long."""
        now = time.monotonic()
        if now - self._workers_counted_at < 1 and self._threads:
            return
        with contextlib.suppress(OSError):  # a lost scheduler is reported by the running tasks
            self._threads = dict(self._client.nthreads())
        self._workers_counted_at = now
        if self._threads:
            self._no_workers_since = None
            return
        if self._no_workers_since is None:
            self._no_workers_since = now
            self._notify(f"waiting for workers at {self._address}")
        waited = now - self._no_workers_since
        if self._overflow_message and waited > RESTART_TIMEOUT:
            raise PartialError(
                f"{self._overflow_message} No other worker could start. {kind.kept_note}".strip()
            )
        if waited > NO_WORKER_TIMEOUT:
            raise PartialError(
                f"no worker connected to {self._address} for {NO_WORKER_TIMEOUT:.0f} s. "
                f"{kind.kept_note}Start workers and run the same command again."
            )
        if not num_running:
            time.sleep(0.2)


def _retries_first(retries: deque[Numbered], new_tasks: Iterator[Numbered]) -> Iterator[Numbered]:
    """Yield tasks that must run again, then new ones."""
    while retries:
        yield retries.popleft()
    yield from new_tasks


def _all_finished(finished: SimpleQueue[Finished]) -> Iterator[Finished]:
    """Yield all tasks that have finished by now; wait up to a second for the first."""
    with contextlib.suppress(Empty):
        yield finished.get(timeout=1)
        while True:
            yield finished.get_nowait()


def run_in_worker(number: int, data: bytes, function: TaskFunction, job: bytes) -> bytes:
    """Run one task in the current Dask worker and return its encoded result."""
    worker = distributed.get_worker()
    result = function(job, number, data, worker.local_directory)
    return msgspec.msgpack.encode(msgspec.structs.replace(result, worker=worker.address))
