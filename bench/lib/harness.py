"""Options, clocks, subprocesses, result files and thresholds of the benchmark scripts.

Every script ``bench/NAME.py`` measures one claim and writes ``bench/results/NAME.json``. It defines
``main(arguments)``; ``bench/run.py`` runs the scripts that ``make bench`` needs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

RESULTS = Path(__file__).parents[1] / "results"
RAW_DATA = "GSX_RAW_DATA"

Result = dict[str, Any]
Clock = Callable[[], float]
T = TypeVar("T")


# Options


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows the docstring of a script as help and has ``--dry-run``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="measure, but do not write the result file"
    )
    return parser


def add_sections(
    parser: argparse.ArgumentParser, sections: Sequence[str], metavar: str = "SECTION"
) -> None:
    """Add the positional arguments ``sections``: any of these names, all of them by default."""

    def known_section(text: str) -> str:
        if text not in sections:
            choices = ", ".join(sections)
            raise argparse.ArgumentTypeError(f"`{text}` is unknown. Choose from {choices}.")
        return text

    parser.add_argument(
        "sections",
        nargs="*",
        type=known_section,
        default=list(sections),
        metavar=metavar,
        help=f"{', '.join(sections)} [default: all]",
    )


def command_line(name: str, *arguments: str, raw_data: bool = False) -> str:
    """Return the command that reproduces a result, as result files record it."""
    prefix = f"{RAW_DATA}=DIR " if raw_data else ""
    return prefix + " ".join(["python", f"bench/{name}.py", *arguments])


def raw_data() -> Path:
    """Return the directory of raw datasets; exit if ``GSX_RAW_DATA`` is not set."""
    directory = os.environ.get(RAW_DATA)
    if not directory:
        raise SystemExit(f"{RAW_DATA} is not set. Set it to the directory of the raw datasets.")
    return Path(directory)


# Environment of a measurement


def versions(*packages: str, python: bool = True) -> dict[str, str]:
    """Return the versions of Python and of installed packages."""
    interpreter = {"python": platform.python_version()} if python else {}
    return {**interpreter, **{package: version(package) for package in packages}}


def machine() -> str:
    """Return operating system and processor architecture."""
    return f"{platform.system()} {platform.machine()}"


def load_average() -> list[float]:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return [round(load, 1) for load in os.getloadavg()]


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


# Time


def timed(work: Callable[[], T], clock: Clock = time.perf_counter) -> tuple[float, T]:
    """Call ``work`` and return its seconds and its result."""
    started = clock()
    value = work()
    return clock() - started, value


def interleave(
    works: Mapping[str, Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of all runs of all works.

    Each round runs every work once, so a busy machine slows all of them. A result is freed before
    the next work starts and outside the clock.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            elapsed, value = timed(work, clock)
            seconds[name].append(elapsed)
            del value
    return seconds


# Subprocesses


def run_json(command: Sequence[object], env: Mapping[str, str] | None = None) -> Any:
    """Run a command and parse the last line of its output as JSON; exit if the command fails.

    ``env`` is added to the environment of this process.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise SystemExit(f"`{' '.join(words)}` failed with exit code {done.returncode}.")
    return json.loads(done.stdout.strip().splitlines()[-1])


def rerun(script: str, *arguments: object, env: Mapping[str, str] | None = None) -> Any:
    """Run a benchmark script in a new process and return the JSON that it prints last."""
    return run_json([sys.executable, script, *arguments], env)


def gsx_command(*words: object) -> Any:
    """Run a gsx command with ``--json`` in a new process and return its output."""
    return run_json([sys.executable, "-m", "gsx", *words, "--json"])


# Results


def result_path(name: str) -> Path:
    """Return the result file of a benchmark."""
    return RESULTS / f"{name}.json"


def read_result(name: str) -> Result:
    """Return the result of the last run of a benchmark, or ``{}``."""
    path = result_path(name)
    return json.loads(path.read_text()) if path.is_file() else {}


def write_result(name: str, result: Mapping[str, Any], *, dry_run: bool = False) -> None:
    """Write the result file of a benchmark, unless ``dry_run``."""
    if not dry_run:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result_path(name).write_text(as_json(result) + "\n")


def as_json(result: Mapping[str, Any]) -> str:
    """Return a result as indented JSON."""
    return json.dumps(result, indent=2)


# Thresholds


def at_least(figures: Mapping[str, float], bars: Mapping[str, float]) -> list[str]:
    """Return a message for every figure below its bar; figures without a bar pass."""
    return [
        f"{name} is {figure:g}, below {bars[name]:g}"
        for name, figure in figures.items()
        if name in bars and figure < bars[name]
    ]


def at_most(figures: Mapping[str, float], bars: Mapping[str, float]) -> list[str]:
    """Return a message for every figure above its bar; figures without a bar pass."""
    return [
        f"{name} is {figure:g}, above {bars[name]:g}"
        for name, figure in figures.items()
        if name in bars and figure > bars[name]
    ]


def require(missed: Iterable[str]) -> None:
    """Exit with the messages of missed bars, if there are any."""
    messages = list(missed)
    if messages:
        raise SystemExit(f"missed: {'; '.join(messages)}")
