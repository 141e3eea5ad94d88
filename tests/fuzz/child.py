"""The process that runs cases: it reports every step over a pipe and may die at any moment."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.fuzz.confine import confine
from tests.fuzz.oracles import Outcome, attempt, written_files
from tests.fuzz.sandbox import Sandbox, delete
from tests.fuzz.target import Case, Target

MEMORY_LIMIT = 1 << 30
"""Memory above the start of an operation that counts as a failure."""
HARD_LIMIT = 10 << 30
"""Memory above the start of the process that the operating system allows."""


def run_cases(
    target: Target, cases: Iterable[tuple[int, Case]], base: Path, pipe: int, crash_log: Path
) -> None:
    """Run cases and write one JSON line per step; never returns."""
    status = 0
    try:
        _prepare(base, crash_log)
        sandbox = Sandbox(base)
        confine(base)
        sandbox.reset()
        sandbox.watch()
        with os.fdopen(pipe, "w", buffering=1) as stream:
            for index, case in cases:
                _run_case(target, index, case, sandbox, stream)
    except BrokenPipeError:
        status = 8  # the parent has ended
    except BaseException as error:
        status = 9
        Path(crash_log).write_text(f"harness: {type(error).__name__}: {error}\n")
        import traceback

        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


def _prepare(base: Path, crash_log: Path) -> None:
    os.setsid()
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    os.environ.pop("GSX_STORE", None)
    os.environ.pop("GSX_RAW_DATA", None)
    os.environ["TQDM_DISABLE"] = "1"
    log = crash_log.open("w")
    faulthandler.enable(log)
    faulthandler.register(signal.SIGUSR1, log, all_threads=True)
    current = _status("VmData") << 10
    resource.setrlimit(resource.RLIMIT_DATA, (current + HARD_LIMIT, current + HARD_LIMIT))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)


def _run_case(target: Target, index: int, case: Case, sandbox: Sandbox, stream: Any) -> None:
    def report(**fields: Any) -> None:
        stream.write(json.dumps({"case": index, **fields}) + "\n")

    report(step="place")
    box = sandbox.new_case(f"{target.name}-{index}")
    target.place(box, case)
    list(sandbox.violations(box))  # an edit may have linked or locked canary files
    sandbox.reset()
    for name in case["run"]:
        report(step=name)
        gc.collect(0)
        before = _reset_peak()
        outcome = attempt(target.operation(name, box, case))
        if target.may_read_links and outcome.kind == "secret in output":
            outcome = replace(outcome, kind="refused")
        growth = (_status("VmHWM") << 10) - before
        failures = (
            [] if outcome.kind in ("accepted", "refused") else [(outcome.kind, outcome.detail)]
        )
        failures += target.check(name, outcome, box, case)
        failures += [
            (kind, _general(detail, box.root))
            for kind, detail in sandbox.violations(box)
            if kind != "outside read" or not target.may_read_links
        ]
        if growth > MEMORY_LIMIT:
            failures.append(("memory", f"{growth >> 20} MiB"))
        report(step=name, done=asdict(outcome), growth=growth, failures=failures)
    failures = list(written_files(box))
    report(step="output", done=asdict(Outcome("accepted")), growth=0, failures=failures)
    os.chdir(sandbox.base)
    delete(box.root)


def _general(detail: str, root: Path) -> str:
    """Remove the number of the case from a path."""
    return detail.replace(str(root), "CASE").replace(str(root.parents[1]), "BASE")


def _status(field: str) -> int:
    """Return a value of /proc/self/status in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0


def _reset_peak() -> int:
    """Set the memory peak to the memory in use and return it in bytes."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/clear_refs", os.O_WRONLY)
        os.write(file, b"5")
        os.close(file)
    return _status("VmRSS") << 10
