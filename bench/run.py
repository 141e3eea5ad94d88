"""Regenerate the results of benchmarks: ``python bench/run.py [NAME ...] [--list]``.

Without names, all benchmarks run, and every file in ``bench/results`` is written again. Each run is
a new process. Runs whose raw datasets or packages are missing are skipped, with the reason.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lib.harness import RAW_DATA, result_path

BENCH = Path(__file__).parent
HIV = "hiv/HIV.csv.gz"


@dataclass(frozen=True, slots=True)
class Run:
    """One process of a benchmark."""

    arguments: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    """Files or directories that it needs in GSX_RAW_DATA."""
    packages: tuple[str, ...] = ()
    """Packages that it needs in addition to ``gsx[test]``."""


BENCHMARKS: dict[str, tuple[Run, ...]] = {
    "startup": (Run(),),
    "import_time": (Run(),),
    "motif": (Run(),),
    "molecules": (Run(raw=(HIV,)),),
    # Six rounds of HIV and three of colored MNIST.
    "workers": (
        Run(raw=(HIV, "mnist")),
        Run(("hiv-scaffold", "--more"), raw=(HIV, "mnist")),
    ),
    "zinc": (Run(raw=("zinc250k/zinc.txt.tar.gz",)),),
    "writer": (Run(),),
    "share": (Run(), Run(("--only-molecules",), raw=(HIV,))),
    "large_store": (Run(),),
    "catalog": (Run(),),
    "loader": (Run(packages=("litdata", "webdataset")),),
    "distributed_loading": (Run(),),
    "memory": (Run(),),
    "splice": (Run(),),
    "hiv_splice": (Run(raw=(HIV,)),),
    "featx": (
        Run(("speed",)),
        Run(("in_memory",)),
        Run(("replicas",), raw=("twitch", "coauthor_cs/coauthor_cs.npz")),
        Run(("memory",)),
    ),
    "native": (Run(),),
    "augment": (Run(),),
    "train": (Run(),),
    "algorithms": (Run(),),
    "precision": (Run(),),
    # One process per section: sections report the peak memory of their process.
    "scale": (
        Run(("ratio", "--graphs", "1000000", "--rounds", "1")),
        Run(("overhead",)),
        Run(("memory",)),
        Run(("tasks",)),
        Run(("hashes",)),
        Run(("manifest",)),
    ),
}
"""The runs that write each result file, in order."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks [default: all]")
    parser.add_argument("--list", action="store_true", help="list the runs and exit")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark `{name}`. Choose from {', '.join(BENCHMARKS)}.")
    names = options.names or list(BENCHMARKS)
    if options.list:
        show_runs(names)
        return
    outcomes = {
        command(name, run): execute(name, run) for name in names for run in BENCHMARKS[name]
    }
    width = max(map(len, outcomes))
    print("\n" + "\n".join(f"{line:<{width}}  {outcome}" for line, outcome in outcomes.items()))
    bad = ("failed", "skipped") if options.names else ("failed",)
    if any(outcome.startswith(bad) for outcome in outcomes.values()):
        raise SystemExit(1)


def command(name: str, run: Run) -> str:
    """Return the command line of a run, without the environment."""
    return " ".join(["python", f"bench/{name}.py", *run.arguments])


def show_runs(names: list[str]) -> None:
    """Print the runs and the reasons to skip them."""
    runs = [(name, run) for name in names for run in BENCHMARKS[name]]
    width = max(len(command(name, run)) for name, run in runs)
    for name, run in runs:
        line = f"{command(name, run):<{width}}  {missing(run)}"
        print(line.rstrip())


def missing(run: Run) -> str:
    """Return the reason why a run has to be skipped, or ``""``."""
    absent = [package for package in run.packages if find_spec(package) is None]
    if absent:
        return f"skipped: needs {', '.join(absent)} (pip install -e '.[bench]')"
    directory = os.environ.get(RAW_DATA)
    if run.raw and not directory:
        return f"skipped: needs {RAW_DATA}=DIR with {', '.join(run.raw)}"
    absent = [path for path in run.raw if not (Path(str(directory)) / path).exists()]
    if absent:
        return f"skipped: {', '.join(absent)} not found in {RAW_DATA}={directory}"
    return ""


def execute(name: str, run: Run) -> str:
    """Execute a run and return its outcome: ``ok``, ``failed`` or ``skipped``, with details."""
    print(f"\n$ {command(name, run)}", flush=True)
    reason = missing(run)
    if reason:
        print(reason, flush=True)
        return reason
    result, started = result_path(name), time.time()
    script = BENCH / f"{name}.py"
    status = subprocess.run([sys.executable, script, *run.arguments], check=False).returncode
    seconds = f"{time.time() - started:.0f} s"
    if status:
        return f"failed: exit code {status} after {seconds}"
    if not result.is_file() or result.stat().st_mtime < started:
        return f"failed: {result.name} was not written"
    return f"ok: {seconds}"


if __name__ == "__main__":
    main()
