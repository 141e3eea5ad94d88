"""Tasks, their results and failures, and the protocol of executors that run them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gsx import errors
from gsx.errors import GsxError, StageError
from gsx.stages.sharded_build import ShardPlan
from gsx.storage.artifacts.draft import Draft, Unit
from gsx.storage.artifacts.event_log import EventLog

OUT_OF_MEMORY, WORKER_LOST = "OutOfMemory", "WorkerLost"
"""Kinds of failure of a worker that died before it could report an error."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Description of the error that ended a task."""

    kind: str
    """Class name of the exception."""
    text: str
    trace: str = ""
    errno: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception in plain values."""
        return cls(
            kind=type(error).__name__,
            text=str(error),
            trace="".join(traceback.format_exception(error)),
            errno=error.errno if isinstance(error, OSError) else None,
        )

    @property
    def affects_all_tasks(self) -> bool:
        """Whether every task would fail: full disk, unreachable store, different inputs or code."""
        error_class = _gsx_error_class(self.kind)
        is_task_error = error_class is None or issubclass(error_class, StageError)
        return self.errno is not None or not is_task_error

    def to_exception(self) -> Exception:
        """Return an exception with the same message."""
        error_class = _gsx_error_class(self.kind)
        if error_class is not None:
            return error_class(self.text)
        if self.errno is not None:
            return OSError(self.errno, os.strerror(self.errno), self.text)
        return RuntimeError(self.trace or f"{self.kind}: {self.text}")


def _gsx_error_class(kind: str) -> type[GsxError] | None:
    error_class = getattr(errors, kind, None)
    if isinstance(error_class, type) and issubclass(error_class, GsxError):
        return error_class
    return None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one task."""

    number: int
    stats: dict[str, Any] = {}
    units: tuple[Unit, ...] = ()
    """Units uploaded to the target; empty if the shard was written into the draft."""
    size: int = 0
    """Size of the shard's files in bytes."""
    reused: bool = False
    """Whether the shard existed already."""
    seconds: float = 0.0
    worker: str = ""
    peak_mib: float = 0.0
    """Peak memory of the worker process so far."""
    failure: Failure | None = None
    data: bytes = b""
    """Returned data, if the result is sent back instead of written."""


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work for an executor."""

    name: str
    description: str
    """Content of the task, shown in error messages."""
    data: bytes = b""
    """Input of the task in addition to the job."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """Words for error messages about one kind of task."""

    name: str
    kept_note: str = ""
    """Sentence about what a failed run keeps, with a trailing space."""
    memory_hint: str = ""
    """How to make a task use less memory."""


SHARDS = TaskKind("shard", "Finished shards are kept. ", "make smaller shards with --shard-graphs")
TaskFunction = Callable[[bytes, int, bytes, str], Result]
"""Runs one task on a worker: job, task number, data, scratch directory. Never raises."""


class Executor(Protocol):
    """Runs tasks on workers."""

    def build_shards(
        self, plans: Sequence[ShardPlan], on_progress: Callable[[], None]
    ) -> Iterator[Result]:
        """Yield the result of every shard, in the order in which they finish."""
        ...

    def map_unordered(
        self,
        function: TaskFunction,
        tasks: Iterable[Task],
        kind: TaskKind,
        on_progress: Callable[[], None] = ...,
    ) -> Iterator[Result]:
        """Yield the result of every task, in the order in which they finish.

        Tasks are consumed lazily, when a worker is free.
        """
        ...

    @property
    def num_workers(self) -> int:
        """Current number of workers."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs to open the same build: plain values, without data and secrets."""

    stage: str
    config: dict[str, Any]
    inputs: dict[str, str]
    """Role of each input artifact → its URL or path."""
    key: str
    """Key of the artifact. A worker that computes a different key has different inputs."""
    source: str
    """Digest of the stage's code."""
    versions: dict[str, str]
    """Versions of the packages that can change the bytes of a result."""
    draft: str
    """Path of the draft, the same on all machines; unused if there is a target."""
    target: str | None = None
    """URL in an object store to which finished files are uploaded."""
    records: str | None = None


ExecutorFactory = Callable[[Job, Draft, EventLog], AbstractContextManager[Executor]]
"""Starts or connects to the workers of a job."""
