"""Start local Dask workers, or connect to a running cluster.

A Dask scheduler runs the code that its clients send. The scheduler of local workers therefore
accepts only connections with the credentials of this run, which exist in memory alone: TLS, with
certificates on both sides. Without them, every user of the machine could connect to its port.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from gsx.errors import UsageError
from gsx.pipeline.distributed.cluster_options import ClusterOptions
from gsx.pipeline.distributed.tasks import Executor, ExecutorFactory, Job
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import EventLog

try:
    import dask
    import distributed
    from distributed.utils import silence_logging_cmgr

    from gsx.pipeline.distributed.dask_executor import DaskExecutor
except ImportError as _error:
    raise UsageError(f"workers need Dask ({_error}): pip install 'gsx[pipeline]'") from _error

DASK_CONFIG = {
    # Results are tiny. Dask must never write data to disk, because it would pickle it.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # An idle worker may keep much of what it needs for its next shard.
    "distributed.worker.memory.pause": False,
    # The executor counts lost workers itself: it knows which task each of them was running.
    "distributed.scheduler.allowed-failures": 0,
}
WITHOUT_DASHBOARD: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Configuration without any page; Dask opens its HTTP ports on loopback nevertheless."""
_ANY_LOOPBACK_PORT = "127.0.0.1:0"


def dask_executor_factory(
    options: ClusterOptions, notify: Callable[[str], None]
) -> ExecutorFactory:
    """Return a factory for executors on the workers that the options select.

    ``notify`` prints messages to the user, such as the address of the dashboard.
    """
    if options.workers is not None and options.scheduler is not None:
        raise UsageError("--workers and --scheduler exclude each other; give one of them")
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers must be at least 1; got {options.workers}")

    @contextlib.contextmanager
    def open_executor(job: Job, draft: Draft, log: EventLog) -> Iterator[Executor]:
        with contextlib.ExitStack() as stack:
            # The scheduler of local workers creates a directory too, and never removes it.
            pages = {} if options.dashboard else WITHOUT_DASHBOARD
            config = {**DASK_CONFIG, **pages, "temporary-directory": str(draft.scratch)}
            stack.enter_context(dask.config.set(config))
            stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
            overflowed_pids = stack.enter_context(_collect_overflowed_pids())
            client = stack.enter_context(_open_client(options, draft.scratch))
            if options.dashboard:
                notify(f"dashboard of the workers: {client.dashboard_link}")
            yield DaskExecutor(client, job, log, overflowed_pids, notify)

    return open_executor


@contextlib.contextmanager
def _open_client(options: ClusterOptions, scratch: Path) -> Iterator[distributed.Client]:
    """Connect to the scheduler, or start local workers; both end with the context."""
    if options.scheduler is not None:
        try:
            client = distributed.Client(options.scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler at {options.scheduler}: {error}\n"
                "`dask scheduler` prints its address when it starts."
            ) from error
        with client:
            yield client
        return
    automatic = options.memory_limit == "auto"
    try:
        limit = 0 if automatic else dask.utils.parse_bytes(options.memory_limit)
    except ValueError as error:
        raise UsageError(
            f"--memory-limit must be a size such as 4GB; got `{options.memory_limit}`"
        ) from error
    with (
        _end_workers_on_sigterm(),
        distributed.LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit or "auto",
            host="127.0.0.1",
            dashboard_address=_ANY_LOOPBACK_PORT,
            scheduler_kwargs={"dashboard": options.dashboard},
            security=_temporary_credentials(),
            local_directory=str(scratch),
            silence_logs=logging.CRITICAL,
            preload=["gsx.pipeline.distributed.worker_tasks"],
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextlib.contextmanager
def _end_workers_on_sigterm() -> Iterator[None]:
    """End the block on SIGTERM, and then this process.

    A process that dies at once leaves semaphores, about which Python's resource tracker warns.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = []

    def interrupt(*_: object) -> None:
        received.append(True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second signal ends the process at once
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        if received:
            os.kill(os.getpid(), signal.SIGTERM)


def _temporary_credentials() -> distributed.Security:
    """Return a new key and certificate, which only the processes of this run know."""
    try:
        security: distributed.Security = distributed.Security.temporary()
    except ImportError as error:
        raise UsageError(
            f"--workers needs the package cryptography ({error}): pip install 'gsx[pipeline]'"
        ) from error
    return security


@contextlib.contextmanager
def _collect_overflowed_pids() -> Iterator[set[int]]:
    """Collect the process ids of local workers that were killed for exceeding their memory."""
    pids: set[int] = set()

    class PidCollector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            match = re.search(r"\(pid=(\d+)\) exceeded .*memory budget", record.getMessage())
            if match:
                pids.add(int(match[1]))

    handler, logger = PidCollector(logging.WARNING), logging.getLogger("distributed.nanny.memory")
    logger.addHandler(handler)
    try:
        yield pids
    finally:
        logger.removeHandler(handler)
