"""Hire Dask workers: processes of this machine, or a cluster that is reached by address."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import UsageError
from gsx.pipeline.distributed.build_shards import Crew, Hire, Job
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import RunLog

try:
    import dask
    import distributed
    from distributed.utils import silence_logging_cmgr

    from gsx.pipeline.distributed.dask_executor import DaskCrew
except ImportError as _error:
    raise UsageError(f"workers need Dask ({_error}): pip install 'gsx[pipeline]'") from _error

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
                scratch = draft.scratch
                # The scheduler of local workers takes a folder too, and leaves it.
                settings = {**SETTINGS, "temporary-directory": str(scratch)}
                stack.enter_context(dask.config.set(settings))
                stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
                outgrown = stack.enter_context(_outgrown())
                client = stack.enter_context(self._client(scratch))
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
                preload=["gsx.pipeline.distributed.worker_tasks"],
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
