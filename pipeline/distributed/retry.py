"""Retry policy: which tasks run again after a worker died or a store failed."""

from __future__ import annotations

from dataclasses import dataclass

from gsx.pipeline.distributed.tasks import Failure

MAX_WORKER_LOSSES = 6
"""Number of lost workers after which a task fails."""
MAX_MEMORY_OVERFLOWS = 2
"""Number of workers killed for their memory use after which a task fails."""
MAX_STORE_RETRIES = 2
"""Retries of a task after an error of a disk or a store."""


@dataclass(slots=True)
class TaskAttempts:
    """Failed attempts of one task."""

    losses: int = 0
    """Workers lost while they ran the task."""
    overflows: int = 0
    """Workers that were killed because they exceeded their memory limit."""
    store_failures: int = 0

    def retry_after_loss(self, losses: int, *, out_of_memory: bool) -> bool:
        """Record lost workers and return whether to run the task again."""
        self.losses += losses
        self.overflows += out_of_memory
        return self.losses < MAX_WORKER_LOSSES and self.overflows < MAX_MEMORY_OVERFLOWS

    def retry_after_failure(self, failure: Failure) -> bool:
        """Record a reported failure and return whether to run the task again.

        Only disks and stores can recover. A bug in the task itself, or a worker with different code
        or package versions (`UsageError`), fails again.
        """
        if not failure.affects_all_tasks:
            return False
        self.store_failures += 1
        return failure.kind != "UsageError" and self.store_failures <= MAX_STORE_RETRIES
