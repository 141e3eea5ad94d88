"""A crew of Dask workers: processes of this machine, or a cluster that is reached by address.

Every worker has one shard in hand at a time, so that the loss of a worker is held against one shard
only. A task carries a few plain values and returns a few; graphs, weights and credentials never
pass between machines this way.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from gsx.errors import PartialError, UsageError
from gsx.pipeline.shards import OUT_OF_MEMORY, WORKER_LOST, Crew, Failure, Hire, Job, Result
from gsx.pipeline.worker import make_shard
from gsx.stages.shards import ShardPlan
from gsx.storage.draft import Draft
from gsx.storage.runlog import RunLog

try:
    import dask
    import distributed
    from distributed.scheduler import KilledWorker
    from distributed.utils import silence_logging_cmgr
except ImportError as _error:
    raise UsageError(f"workers need Dask ({_error}): pip install 'gsx[pipeline]'") from _error

LOSSES = 6
"""Workers that may be lost over one shard."""
OVERFLOWS = 2
"""Workers that may outgrow their memory over one shard."""
RETRIES = 2
"""How often a shard is tried again after a disk or a store failed."""
START = 60.0
"""Seconds a worker may take to start again after one outgrew its memory."""
PATIENCE = 300.0
"""Seconds without any worker after which a run ends."""
SETTINGS = {
    # Results are tiny: nothing is ever written to disk by Dask, which would pickle it.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # A worker at rest may hold much of what it needs for its next shard.
    "distributed.worker.memory.pause": False,
    # Losses are counted here, where it is known what a worker had in hand.
    "distributed.scheduler.allowed-failures": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workforce:
    """Which workers a person asked for."""

    workers: int | None = None
    """Processes of this machine."""
    scheduler: str | None = None
    """Address of a cluster instead."""
    memory_limit: str = "auto"
    """Of each process of this machine."""

    def hire(self, say: Callable[[str], None]) -> Hire:
        """Return what opens a crew of these workers; ``say`` is told where to watch them."""
        if self.workers is not None and self.scheduler is not None:
            raise UsageError("give --workers or --scheduler, not both")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers must be at least 1; got {self.workers}")

        @contextlib.contextmanager
        def hire(job: Job, draft: Draft, log: RunLog) -> Iterator[Crew]:
            with contextlib.ExitStack() as stack:
                stack.enter_context(dask.config.set(SETTINGS))
                stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
                outgrown = stack.enter_context(_outgrown())
                client = stack.enter_context(self._client(draft.root / "scratch"))
                say(f"dashboard of the workers: {client.dashboard_link}")
                yield DaskCrew(client, job, log, outgrown, say)

        return hire

    @contextlib.contextmanager
    def _client(self, scratch: Path) -> Iterator[distributed.Client]:
        if self.scheduler is not None:
            try:
                client = distributed.Client(self.scheduler, timeout=10, set_as_default=False)
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"no Dask scheduler at {self.scheduler}: {error}\n"
                    "`dask scheduler` prints its address when it starts."
                ) from error
            with client:
                yield client
            return
        try:
            limit = dask.utils.parse_bytes(self.memory_limit) if self.memory_limit != "auto" else 0
        except ValueError as error:
            raise UsageError(
                f"--memory-limit must be a size such as 4GB; got `{self.memory_limit}`"
            ) from error
        with (
            distributed.LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=limit or "auto",
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                local_directory=str(scratch),
                silence_logs=logging.CRITICAL,
                preload=["gsx.pipeline.worker"],
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client


@contextlib.contextmanager
def _outgrown() -> Iterator[set[int]]:
    """Collect the process numbers of workers of this machine that were ended for their memory."""
    found: set[int] = set()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            match = re.search(r"\(pid=(\d+)\) exceeded .*memory budget", record.getMessage())
            if match:
                found.add(int(match[1]))

    listener, logger = Listener(logging.WARNING), logging.getLogger("distributed.nanny.memory")
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)


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

    def results(
        self, draft: Draft, plans: Sequence[ShardPlan], tick: Callable[[], None]
    ) -> Iterator[Result]:
        """Yield what became of every shard, in the order in which they end."""
        waiting, run = deque(range(len(plans))), secrets.token_hex(4)
        ended: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        in_hand: dict[int, Any] = {}
        troubles: dict[int, Counter[str]] = {}
        try:
            while waiting or in_hand:
                self._look(len(in_hand), len(waiting) + len(in_hand), len(plans))
                while waiting and len(in_hand) < max(sum(self._threads.values()), 1):
                    number = waiting.popleft()
                    in_hand[number] = self._submit(number, f"shard-{number}-{run}", ended)
                try:
                    number, future = ended.get(timeout=1)
                except Empty:
                    tick()
                    continue
                del in_hand[number]
                known = troubles.setdefault(number, Counter())
                result = self._result(number, future, plans[number], known)
                future.release()
                if result is None:
                    waiting.appendleft(number)
                else:
                    yield result
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone, and with it its tasks
                self._client.cancel(list(in_hand.values()))

    def _submit(self, number: int, key: str, ended: SimpleQueue[tuple[int, Any]]) -> Any:  # noqa: ANN401
        # A new name each time: a worker that was thought dead must not answer for another.
        name = f"{key}-{secrets.token_hex(2)}"
        future = self._client.submit(make_in_worker, self._job, number, key=name, pure=False)
        future.add_done_callback(lambda done: ended.put((number, done)))
        return future

    def _result(
        self,
        number: int,
        future: Any,  # noqa: ANN401
        plan: ShardPlan,
        troubles: Counter[str],
    ) -> Result | None:
        """Return what became of a shard; None when it must be tried again."""
        try:
            result = msgspec.json.decode(future.result(), type=Result)
        except KilledWorker as error:
            return self._lost(number, error, plan, troubles)
        except (CancelledError, OSError, distributed.client.FutureCancelledError) as error:
            raise PartialError(
                f"lost the scheduler at {self._address} ({error}). Finished "
                "shards are kept; start it again and run the same command to go on."
            ) from error
        if result.failure is not None and result.failure.everywhere:
            troubles["store"] += 1
            if result.failure.kind != "UsageError" and troubles["store"] <= RETRIES:
                return None
        return result

    def _lost(
        self, number: int, error: KilledWorker, plan: ShardPlan, troubles: Counter[str]
    ) -> Result | None:
        worker = error.last_worker
        overflow = worker.pid in self._outgrown
        troubles["lost"] += error.allowed_failures + 1
        troubles["overflow"] += overflow
        self._log.write(
            "lost", shard=plan.name, worker=worker.address, out_of_memory=overflow,
            memory_limit=worker.memory_limit,
        )  # fmt: skip
        limit = dask.utils.format_bytes(worker.memory_limit)
        if overflow:
            text = (
                f"its worker outgrew its memory limit of {limit}. Give more with --memory-limit, "
                "or make smaller shards with --shard-graphs."
            )
            self._overflow = f"{plan.name} ({plan.about}): {text}"
        else:
            text = (
                f"{troubles['lost']} workers were lost over it, the last at {worker.address}, "
                f"which may use {limit}. If that was too little, make smaller shards "
                "with --shard-graphs."
            )
        if troubles["lost"] < LOSSES and troubles["overflow"] < OVERFLOWS:
            return None
        failure = Failure(kind=OUT_OF_MEMORY if overflow else WORKER_LOST, text=text)
        return Result(number=number, failure=failure, worker=worker.address)

    def _look(self, in_hand: int, left: int, total: int) -> None:
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
            raise PartialError(
                f"{self._overflow} No other worker could start; {left} of {total} shards are left, "
                "finished shards are kept."
            )
        if now - self._alone_since > PATIENCE:
            raise PartialError(
                f"no worker came to {self._address} for {PATIENCE:.0f} s; {left} "
                f"of {total} shards are left. Finished shards are kept; run the same command again."
            )
        if not in_hand:
            time.sleep(0.2)


def make_in_worker(job: bytes, number: int) -> bytes:
    """Make one shard in the Dask worker that runs this."""
    worker = distributed.get_worker()
    data = make_shard(job, number, worker.local_directory)
    result = msgspec.json.decode(data, type=Result)
    return msgspec.json.encode(msgspec.structs.replace(result, worker=worker.address))
