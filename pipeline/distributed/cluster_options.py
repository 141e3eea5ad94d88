"""Options that select workers. This module does not import Dask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsx.pipeline.distributed.tasks import ExecutorFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Workers to use: local processes, a cluster, or neither (this process)."""

    workers: int | None = None
    """Number of local worker processes."""
    scheduler: str | None = None
    """Address of the scheduler of a running cluster."""
    memory_limit: str = "auto"
    """Memory limit of each local worker process."""
    dashboard: bool = False
    """Whether to serve Dask's dashboard, to every user of this machine, on loopback."""

    @property
    def enabled(self) -> bool:
        """Whether there are workers; otherwise everything runs in this process."""
        return self.workers is not None or self.scheduler is not None

    def executor_factory(self, notify: Callable[[str], None]) -> ExecutorFactory | None:
        """Return a factory for executors on these workers; None: run in this process.

        ``notify`` prints messages to the user, such as the address of the dashboard.
        """
        if not self.enabled:
            return None
        from gsx.pipeline.distributed.cluster import dask_executor_factory

        return dask_executor_factory(self, notify)
