"""Tasks in the hands of Dask workers: handed out, watched, tried again where a worker was lost.

Every worker has one task in hand at a time, so that the loss of a worker is held against one task
only. A task carries plain bytes and returns plain bytes, mostly few: shards are written by workers,
so weights, corpora and credentials never pass between machines this way.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

import dask
import distributed
import msgspec
from distributed.scheduler import KilledWorker

from gsx.errors import PartialError
from gsx.pipeline.distributed.build_shards import (
    OUT_OF_MEMORY,
    SHARDS,
    WORKER_LOST,
    Do,
    Failure,
    Job,
    Result,
    Sort,
    Task,
)
from gsx.pipeline.distributed.worker_tasks import make_shard
from gsx.stages.sharded_build import ShardPlan
from gsx.storage.artifacts.event_log import RunLog

LOSSES = 6
"""Workers that may be lost over one task."""
OVERFLOWS = 2
"""Workers that may outgrow their memory over one task."""
RETRIES = 2
"""How often a task is tried again after a disk or a store failed."""
START = 60.0
"""Seconds a worker may take to start again after one outgrew its memory."""
PATIENCE = 300.0
"""Seconds without any worker after which a run ends."""


class DaskCrew:
    """Workers behind a Dask client."""

    def __init__(
        self,
        client: distributed.Client,
        job: Job,
        log: RunLog,
        outgrown: set[int],
        say: Callable[[str], None],
    ) -> None:
        self._client, self._job, self._log = client, msgspec.json.encode(job), log
        self._address = client.scheduler_info()["address"]
        self._outgrown, self._say = outgrown, say
        self._threads: dict[str, int] = dict(client.nthreads())
        self._looked = 0.0
        self._alone_since: float | None = None
        self._overflow = ""
        """What is to be said of the last worker that outgrew its memory."""

    @property
    def size(self) -> int:
        """How many workers there are now."""
        return len(self._threads)

    def results(self, plans: Sequence[ShardPlan], tick: Callable[[], None]) -> Iterator[Result]:
        """Yield what became of every shard, in the order in which they end."""
        tasks = (Task(plan.name, plan.about) for plan in plans)
        return self.each(make_shard, tasks, SHARDS, tick)

    def each(
        self, do: Do, tasks: Iterable[Task], sort: Sort, tick: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Yield what became of every task, in the order in which they end; few are in hand."""
        fresh, again = enumerate(tasks), deque[tuple[int, Task]]()
        ended: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        in_hand: dict[int, tuple[Task, Any]] = {}
        troubles: defaultdict[int, Counter[str]] = defaultdict(Counter)
        known: list[Result] = []
        try:
            while True:
                self._look(len(in_hand), sort)
                free = max(sum(self._threads.values()), 1) - len(in_hand)
                next_ones = list(islice(_drained(again, fresh), max(free, 0)))
                in_hand |= self._submit(do, next_ones, sort.name, ended)
                yield from known  # while workers are busy again
                known = []
                if not in_hand:
                    return
                for number, future, data in self._fetched(list(_all_ended(ended))):
                    task, _ = in_hand.pop(number)
                    result = self._result(number, future, data, task, sort, troubles[number])
                    future.release()
                    if result is None:
                        again.append((number, task))
                    else:
                        del troubles[number]
                        known.append(result)
                tick()
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone, and with it its tasks
                self._client.cancel([future for _, future in in_hand.values()])

    def _submit(
        self,
        do: Do,
        tasks: Sequence[tuple[int, Task]],
        sort: str,
        ended: SimpleQueue[tuple[int, Any]],
    ) -> dict[int, tuple[Task, Any]]:
        """Hand out tasks in one message, which costs the scheduler as much as one task."""
        if not tasks:
            return {}
        # A new name each time: a worker that was thought dead must not answer for another.
        run = secrets.token_hex(4)
        futures = self._client.map(
            in_worker,
            [number for number, _ in tasks],
            [task.data for _, task in tasks],
            key=[f"{sort}-{number}-{run}" for number, _ in tasks],
            pure=False,
            do=do,
            job=self._job,
        )
        for (number, _), future in zip(tasks, futures, strict=True):
            future.add_done_callback(lambda done, number=number: ended.put((number, done)))
        return {number: (task, f) for (number, task), f in zip(tasks, futures, strict=True)}

    def _fetched(self, ended: list[tuple[int, Any]]) -> Iterator[tuple[int, Any, bytes | None]]:
        """Yield ended tasks with what they returned, fetched at once; None where that fails."""
        finished = [future for _, future in ended if future.status == "finished"]
        found: dict[str, bytes] = {}
        with contextlib.suppress(Exception):  # each is asked alone then, and says why
            answers = self._client.gather(finished)
            found = {future.key: data for future, data in zip(finished, answers, strict=True)}
        for number, future in ended:
            yield number, future, found.get(future.key)

    def _result(
        self,
        number: int,
        future: Any,  # noqa: ANN401
        data: bytes | None,
        task: Task,
        sort: Sort,
        troubles: Counter[str],
    ) -> Result | None:
        """Return what became of a task; None when it must be tried again."""
        try:
            answer = future.result() if data is None else data
            result = msgspec.msgpack.decode(answer, type=Result)
        except KilledWorker as error:
            return self._lost(number, error, task, sort, troubles)
        except (CancelledError, OSError, distributed.client.FutureCancelledError) as error:
            raise PartialError(
                f"lost the scheduler at {self._address} ({error}). {sort.kept}"
                "Start it again and run the same command to go on."
            ) from error
        if result.failure is not None and result.failure.everywhere:
            troubles["store"] += 1
            if result.failure.kind != "UsageError" and troubles["store"] <= RETRIES:
                return None
        return result

    def _lost(
        self, number: int, error: KilledWorker, task: Task, sort: Sort, troubles: Counter[str]
    ) -> Result | None:
        worker = error.last_worker
        overflow = worker.pid in self._outgrown
        troubles["lost"] += error.allowed_failures + 1
        troubles["overflow"] += overflow
        self._log.write(
            "lost", **{sort.name: task.name}, worker=worker.address, out_of_memory=overflow,
            memory_limit=worker.memory_limit,
        )  # fmt: skip
        limit = dask.utils.format_bytes(worker.memory_limit)
        if overflow:
            more = "Give more with --memory-limit"
            text = f"its worker outgrew its memory limit of {limit}. " + (
                f"{more}, or {sort.smaller}." if sort.smaller else f"{more}."
            )
            self._overflow = f"{task.name} ({task.about}): {text}"
        else:
            text = (
                f"{troubles['lost']} workers were lost over it, the last at {worker.address}, "
                f"which may use {limit}."
                + (f" If that was too little, {sort.smaller}." if sort.smaller else "")
            )
        if troubles["lost"] < LOSSES and troubles["overflow"] < OVERFLOWS:
            return None
        failure = Failure(kind=OUT_OF_MEMORY if overflow else WORKER_LOST, text=text)
        return Result(number=number, failure=failure, worker=worker.address)

    def _look(self, in_hand: int, sort: Sort) -> None:
        """Count the workers now and then; end the run when none comes for long."""
        now = time.monotonic()
        if now - self._looked < 1 and self._threads:
            return
        with contextlib.suppress(OSError):  # a lost scheduler shows in what is in hand
            self._threads = dict(self._client.nthreads())
        self._looked = now
        if self._threads:
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
            self._say(f"waiting for workers at {self._address}")
        if self._overflow and now - self._alone_since > START:
            raise PartialError(f"{self._overflow} No other worker could start. {sort.kept}".strip())
        if now - self._alone_since > PATIENCE:
            raise PartialError(
                f"no worker came to {self._address} for {PATIENCE:.0f} s. {sort.kept}"
                "Run the same command again."
            )
        if not in_hand:
            time.sleep(0.2)


def _drained(
    again: deque[tuple[int, Task]], fresh: Iterator[tuple[int, Task]]
) -> Iterator[tuple[int, Task]]:
    """Yield tasks that must be tried again, then new ones."""
    while again:
        yield again.popleft()
    yield from fresh


def _all_ended(ended: SimpleQueue[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield tasks that have ended by now; wait a second for the first."""
    with contextlib.suppress(Empty):
        yield ended.get(timeout=1)
        while True:
            yield ended.get_nowait()


def in_worker(number: int, data: bytes, do: Do, job: bytes) -> bytes:
    """Do one task in the Dask worker that runs this."""
    worker = distributed.get_worker()
    result = do(job, number, data, worker.local_directory)
    return msgspec.msgpack.encode(msgspec.structs.replace(result, worker=worker.address))
