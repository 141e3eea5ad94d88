"""Make all shards of an artifact, here or by a crew elsewhere, and say what became of each."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gsx import errors
from gsx.errors import GsxError, PartialError, StageError
from gsx.stages.sharded_build import Facts, ShardPlan, Workshop
from gsx.stages.stage import Progress
from gsx.storage.artifacts.draft import Draft, Unit
from gsx.storage.artifacts.event_log import RunLog
from gsx.storage.artifacts.publish import Outcome

HOPELESS = 3
"""Shards that fail before any was made, after which the others are not tried."""
OUT_OF_MEMORY, WORKER_LOST = "OutOfMemory", "WorkerLost"
"""Kinds of failure of a worker that could not say what happened."""
SHOWN = 5
"""Failed shards that an error names; the log names all."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a shard could not be made."""

    kind: str
    """Name of the class of the error."""
    text: str
    trace: str = ""
    errno: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an error in plain values."""
        return cls(
            kind=type(error).__name__,
            text=str(error),
            trace="".join(traceback.format_exception(error)),
            errno=error.errno if isinstance(error, OSError) else None,
        )

    @property
    def everywhere(self) -> bool:
        """Whether it would meet every shard: a full disk, a store out of reach, other inputs."""
        known = _known(self.kind)
        return self.errno is not None or not (known is None or issubclass(known, StageError))

    def error(self) -> Exception:
        """Return an error that says the same."""
        known = _known(self.kind)
        if known is not None:
            return known(self.text)
        if self.errno is not None:
            return OSError(self.errno, os.strerror(self.errno), self.text)
        return RuntimeError(self.trace or f"{self.kind}: {self.text}")


def _known(kind: str) -> type[GsxError] | None:
    found = getattr(errors, kind, None)
    return found if isinstance(found, type) and issubclass(found, GsxError) else None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one shard, or of another task."""

    number: int
    facts: dict[str, Any] = {}
    units: tuple[Unit, ...] = ()
    """What was put at the target; empty where it lies in the draft."""
    size: int = 0
    """Bytes of its files."""
    kept: bool = False
    """Whether it had been made before."""
    seconds: float = 0.0
    worker: str = ""
    peak_mib: float = 0.0
    """Largest memory the process had until then."""
    failure: Failure | None = None
    data: bytes = b""
    """What was made, where it is sent back and not written."""


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work for a crew."""

    name: str
    about: str
    """What goes into it, for a person who must look for the reason of a failure."""
    data: bytes = b""
    """What whoever does it must know beside the job."""


@dataclass(frozen=True, slots=True)
class Sort:
    """How a person is told of tasks of one sort."""

    name: str
    kept: str = ""
    """What a run that ends early leaves, as a sentence."""
    smaller: str = ""
    """What to do where one task needs too much memory."""


SHARDS = Sort("shard", "Finished shards are kept. ", "make smaller shards with --shard-graphs")
Do = Callable[[bytes, int, bytes, str], Result]
"""Does one task where the crew is: job, number, data, and a folder to write in. Never raises."""


class Crew(Protocol):
    """Whoever makes shards, or does other tasks, elsewhere."""

    def results(self, plans: Sequence[ShardPlan], tick: Callable[[], None]) -> Iterator[Result]:
        """Yield what became of every shard, in the order in which they end."""
        ...

    def each(
        self, do: Do, tasks: Iterable[Task], sort: Sort, tick: Callable[[], None] = ...
    ) -> Iterator[Result]:
        """Yield what became of every task, in the order in which they end; few are in hand."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are now."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker must know to open the same workshop: plain values, no data, no secrets."""

    stage: str
    config: dict[str, Any]
    inputs: dict[str, str]
    """URL or path of each artifact to read, by role."""
    key: str
    """Key of what is made; a worker that finds another has other inputs."""
    source: str
    """Hash of the stage's code."""
    versions: dict[str, str]
    """Packages whose versions decide bytes."""
    draft: str
    """Path of the draft, the same on all machines; unused with a target."""
    target: str | None = None
    """Where finished files go at once, in an object store."""
    records: str | None = None


Hire = Callable[[Job, Draft, RunLog], AbstractContextManager[Crew]]
"""Opens a crew for a job."""


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def keep_memory() -> None:
    """Let the allocator keep what it frees, where it is glibc's.

    Blocks take and free large arrays all the time, and the pages of each would be cleared anew;
    Dask even tells workers to hand back every block at once (``MALLOC_TRIM_THRESHOLD_``).
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 1 << 28)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)


def make_one(shop: Workshop, plan: ShardPlan, number: int, draft: Draft) -> Result:
    """Make one shard in this process."""
    began, before = time.perf_counter(), draft.seen(plan.units)
    facts = shop.make(number, draft)
    return Result(
        number=number,
        facts=dict(facts),
        size=sum(e.size for unit in draft.named(plan.units) for e in unit.files.values()),
        kept=bool(before) and draft.seen(plan.units) == before,
        seconds=round(time.perf_counter() - began, 3),
    )


def make_here(shop: Workshop, draft: Draft, plans: Sequence[ShardPlan]) -> Iterator[Result]:
    """Make shards in this process, one after another."""
    for number, plan in enumerate(plans):
        try:
            yield make_one(shop, plan, number, draft)
        except Exception as error:
            failure = Failure.of(error)
            if failure.everywhere:
                raise
            yield Result(number=number, failure=failure)


def fill(
    shop: Workshop,
    draft: Draft,
    crew: Crew | None,
    progress: Progress,
    log: RunLog,
) -> Outcome:
    """Make every shard that is missing, then what is left; a shard that fails stops no other."""
    plans = shop.plans
    total = sum(plan.graphs for plan in plans)
    facts: dict[int, Facts] = {}
    failed: dict[int, Failure] = {}
    done = size = 0

    def tell() -> None:
        workers = "" if crew is None else f"{crew.size} worker{'s' * (crew.size != 1)}, "
        written = f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
        progress(done, total, f"{workers}{written}")

    log.write("start", shards=len(plans), graphs=total, workers=crew.size if crew else 0)
    tell()
    results = make_here(shop, draft, plans) if crew is None else crew.results(plans, tell)
    for result in results:
        _log(log, plans[result.number], result)
        if result.failure is None:
            facts[result.number] = result.facts
            for unit in result.units:
                draft.record(unit)
            size += result.size
            done += plans[result.number].graphs
        else:
            failed[result.number] = result.failure
            if _hopeless(result.failure, made=len(facts), failed=len(failed)):
                break
        tell()
    if failed:
        log.write("end", state="partial", made=len(facts), failed=len(failed))
        raise _ending(plans, failed, len(facts), log)
    outcome = shop.finish(draft, [facts[n] for n in range(len(plans))], _reader(draft))
    log.write("end", state="done", bytes=size)
    return outcome


def _hopeless(failure: Failure, *, made: int, failed: int) -> bool:
    """Say whether going on is of no use."""
    return failure.everywhere or (
        not made and (failed >= HOPELESS or failure.kind == OUT_OF_MEMORY)
    )


def _ending(
    plans: Sequence[ShardPlan], failed: Mapping[int, Failure], made: int, log: RunLog
) -> Exception:
    """Return the error that a run with failed shards ends in."""
    last = list(failed.values())[-1]
    if last.everywhere or (not made and last.trace):
        return last.error()
    left = len(plans) - made
    lines = [
        f"  {plans[n].name} ({plans[n].about}): {failure.kind}: {failure.text}"
        for n, failure in sorted(failed.items())[:SHOWN]
    ]
    more = [f"  and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
    return PartialError(
        "\n".join(
            [
                f"{left} of {len(plans)} shards could not be made; finished shards are kept, "
                "nothing was published.",
                *lines,
                *more,
                f"{log.path} has all that is known. Mend the cause and run the same command: only "
                "what is left is made.",
            ]
        )
    )


def _log(log: RunLog, plan: ShardPlan, result: Result) -> None:
    state = "failed" if result.failure else "kept" if result.kept else "made"
    log.write(
        "shard",
        shard=plan.name,
        about=plan.about,
        state=state,
        graphs=plan.graphs,
        bytes=result.size,
        seconds=result.seconds,
        worker=result.worker,
        peak_mib=result.peak_mib,
        **({"failure": msgspec.to_builtins(result.failure)} if result.failure else {}),
    )


def _reader(draft: Draft) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        path = draft.content / name
        if draft.target is None or path.exists():
            return path.read_bytes()
        return draft.target.read_bytes(name, limit=1 << 33)

    return read
