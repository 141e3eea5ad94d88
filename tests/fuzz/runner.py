"""Runs cases in forked processes, watches their time, and counts outcomes and failures."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tests.fuzz.child import run_cases
from tests.fuzz.oracles import printed_place
from tests.fuzz.target import Case, Target

SECONDS = 10.0
"""Time of one operation above which it counts as a hang: processor time, or idle time."""
BATCH = 100


@dataclass
class Failure:
    """One failed operation."""

    kind: str
    operation: str
    detail: str
    case: Case
    index: int

    @property
    def signature(self) -> str:
        """Text that is equal for failures of one class."""
        detail = self.detail
        if self.kind in ("traceback", "crash", "hang"):
            detail = re.sub(r":\d+ ", " ", detail.split(": ")[0])
            return f"{self.kind}: {detail}"
        if self.kind.startswith("outside") or self.kind == "memory":
            return f"{self.kind}: {self.operation}"
        detail = re.sub(r"\d+", "#", re.sub(r"(CASE/out/)?[0-9a-f]{16,}\S*", "#", detail))
        return f"{self.kind}: {self.operation}: {detail[:80]}"


@dataclass
class Tally:
    """Counts of one target."""

    inputs: int = 0
    operations: int = 0
    outcomes: Counter = field(default_factory=Counter)
    peak: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    classes: Counter = field(default_factory=Counter)
    on_failure: Callable[[Failure], None] = lambda failure: None

    def add(self, failure: Failure) -> None:
        """Count a failure; keep the first one of each class."""
        self.outcomes[failure.kind] += 1
        self.classes[failure.signature] += 1
        if self.classes[failure.signature] == 1:
            self.failures.append(failure)
            self.on_failure(failure)

    def as_json(self) -> dict[str, Any]:
        """Return the figures of the summary."""
        return {
            "inputs": self.inputs,
            "operations": self.operations,
            "accepted": self.outcomes["accepted"],
            "refused": self.outcomes["refused"],
            "tracebacks": self.outcomes["traceback"] + self.outcomes["exit code"],
            "hangs": self.outcomes["hang"],
            "crashes": self.outcomes["crash"],
            "outside": sum(
                n
                for kind, n in self.outcomes.items()
                if kind.startswith(("outside", "left", "secret"))
            ),
            "other_failures": sum(
                n
                for kind, n in self.outcomes.items()
                if kind not in _KNOWN and not kind.startswith(("outside", "left", "secret"))
            ),
            "peak_growth_mib": self.peak >> 20,
            "seconds": round(self.seconds, 1),
            "classes": dict(self.classes.most_common()),
        }


_KNOWN = ("accepted", "refused", "traceback", "exit code", "hang", "crash")


def case_of(target: Target, seed: int, index: int) -> Case:
    """Return the case with a number; it depends on nothing else."""
    return target.draw(random.Random(f"{seed}:{target.name}:{index}"))


def run_target(
    target: Target,
    cases: Iterator[tuple[int, Case]],
    bases: Sequence[Path],
    stop_at: float,
    on_failure: Callable[[Failure], None] = lambda failure: None,
) -> Tally:
    """Run cases until they end or the time is over; each base directory has its own processes."""
    tally = Tally(on_failure=on_failure)
    started = time.monotonic()
    source = _Source(cases)
    jobs = [
        Thread(target=_run_job, args=(copy(target), source, base, tally, stop_at)) for base in bases
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    tally.seconds = time.monotonic() - started
    return tally


class _Source:
    """Hands out cases to several threads."""

    def __init__(self, cases: Iterator[tuple[int, Case]]) -> None:
        self._cases, self._lock = cases, Lock()

    def take(self, count: int) -> list[tuple[int, Case]]:
        with self._lock:
            return list(itertools.islice(self._cases, count))


def _run_job(target: Target, source: _Source, base: Path, tally: Tally, stop_at: float) -> None:
    batch: list[tuple[int, Case]] = []
    while time.monotonic() < stop_at:
        batch = batch or source.take(BATCH)
        if not batch:
            return
        batch = _run_batch(target, batch, base, tally, stop_at)


def _run_batch(
    target: Target, batch: list[tuple[int, Case]], base: Path, tally: Tally, stop_at: float
) -> list[tuple[int, Case]]:
    """Run a batch in one child; return the cases after one that ended the child."""
    cases = dict(batch)
    child = Child(target, batch, base)
    finished: set[int] = set()
    current, step = batch[0][0], "place"

    def fail(kind: str, operation: str, detail: str) -> None:
        tally.add(Failure(kind, operation, detail, cases[current], current))

    try:
        for message in child.messages():
            if message["case"] != current:
                finished.add(current)
            current, step = message["case"], message["step"]
            if time.monotonic() > stop_at and step == "place":
                break
            if "done" in message:
                if step != "output":
                    tally.operations += 1
                    if not message["failures"]:
                        tally.outcomes[message["done"]["kind"]] += 1
                tally.peak = max(tally.peak, message["growth"])
                for kind, detail in message["failures"]:
                    fail(kind, step, detail)
    except HangError as hang:
        fail("hang", step, str(hang))
    stopped = time.monotonic() > stop_at
    status = child.end(kill=stopped or child.hung)
    if stopped and not child.hung:
        tally.inputs += len(finished)
        return []
    if child.hung or status:
        if status and not child.hung:
            fail("crash", step, child.crash(status))
        finished.add(current)
        tally.inputs += len(finished)
        return [item for item in batch if item[0] not in finished]
    tally.inputs += len(batch)
    return []


class HangError(Exception):
    """An operation took too long; the message is the place."""


class Child:
    """A forked process that runs a batch."""

    def __init__(self, target: Target, batch: list[tuple[int, Case]], base: Path) -> None:
        self.log = base / "crash.log"
        self.log.unlink(missing_ok=True)
        self.hung = False
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            run_cases(target, batch, base, writer, self.log)
        os.close(writer)
        self._reader = reader
        self._buffer = b""

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield messages until the child closes its pipe; raise HangError if it stays silent."""
        started, cpu = time.monotonic(), self._cpu()
        limit = SECONDS
        while True:
            if select.select([self._reader], [], [], 0.25)[0]:
                data = os.read(self._reader, 1 << 16)
                if not data:
                    return
                self._buffer += data
                started, cpu = time.monotonic(), self._cpu()
            elapsed, used = time.monotonic() - started, self._cpu() - cpu
            is_idle = elapsed > limit and used < elapsed / 50
            if used > limit or is_idle or elapsed > 12 * limit:
                self.hung = True
                times = f"({elapsed:.0f} s, {used:.0f} s of processor time)"
                raise HangError(f"{self._stack()} {times}")
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                message = json.loads(line)
                limit = 6 * SECONDS if message["step"] == "place" else SECONDS
                yield message

    def _cpu(self) -> float:
        """Return the processor time of the child in seconds."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _stack(self) -> str:
        """Return the innermost frame of the product's code that is running."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.3)
        return self._place()

    def _place(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        # The stack of a thread that hangs begins with its innermost frame.
        frames = text.split("\n")
        return printed_place("\n".join(reversed(frames)))

    def crash(self, status: int) -> str:
        """Describe how the child ended."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        if text.startswith("harness"):
            return text.strip()
        how = (
            signal.Signals(os.WTERMSIG(status)).name
            if os.WIFSIGNALED(status)
            else f"exit {status >> 8}"
        )
        return f"{how} at {self._place()}"

    def end(self, *, kill: bool) -> int:
        """Kill what is left of the child and its group; return the wait status."""
        os.close(self._reader)
        if kill:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


def minimize(target: Target, failure: Failure, base: Path, seconds: float = 60.0) -> Case:
    """Return a case with fewer edits and operations that still fails in the same way."""
    stop_at = time.monotonic() + seconds

    def still_fails(case: Case) -> bool:
        tally = run_target(target, iter([(failure.index, case)]), [base], stop_at)
        return failure.signature in tally.classes

    best = failure.case
    only = {**best, "run": [failure.operation]}
    if failure.operation in best["run"] and len(best["run"]) > 1 and still_fails(only):
        best = only
    for name in ("edits", "run"):
        position = 0
        while position < len(best.get(name, [])) and len(best[name]) > 1:
            smaller = {**best, name: best[name][:position] + best[name][position + 1 :]}
            if time.monotonic() < stop_at and still_fails(smaller):
                best = smaller
            else:
                position += 1
    return best
