"""Run the experiments of a suite: ``python -m experiments.run SUITE … [--dry-run]``.

Every run prepares a source corpus, pretrains what generation needs, generates or augments, trains,
and writes one result file. Runs whose result file exists are skipped, and artifacts in the store
are reused, so a suite can be stopped at any time and started again. ``--part 0/2`` and
``--part 1/2`` share the runs of a suite between two processes. To repeat a run, delete its result
file.

Datasets with raw files are read from ``GSX_RAW_DATA``; without it their runs are skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from experiments.suite import ROOT, Run, Suite, load_suite, suite_names
from gsx.stages.train.results_table import result_json

PROGRAMS = {"gsx": (sys.executable, "-m", "gsx"), "python": (sys.executable,)}
RAW_FOLDER = "RAW/"
"""Start of a path below ``GSX_RAW_DATA`` in the commands of a suite."""
PROTOCOL = ROOT / "experiments" / "protocol.toml"
SHORT_KEY = 12
"""Digits of a key in the command of a result file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing experiments of suites; return 1 if any failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = suite_names()
    parser.add_argument("suites", nargs="+", metavar="SUITE", choices=names, help=", ".join(names))
    parser.add_argument("--datasets", type=_comma_separated, metavar="A,B", help="only these")
    parser.add_argument("--methods", type=_comma_separated, metavar="A,B", help="only these")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every Nth run, from the Ith")
    parser.add_argument("--dry-run", action="store_true", help="list commands, run nothing")
    options = parser.parse_args(arguments)
    try:
        suites = [load_suite(name) for name in options.suites]
        runs = select_runs(suites, options.datasets, options.methods, options.part)
    except ValueError as error:
        parser.error(str(error))
    if options.dry_run:
        for run in runs:
            print(_listing(run), end="\n\n")
        return 0
    return run_all(runs)


def select_runs(
    suites: Iterable[Suite],
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    part: str = "0/1",
) -> list[Run]:
    """Return the runs of suites on some datasets, with some methods, and of one part of N.

    Parts do not depend on which runs are finished, so processes never share a run.
    """
    runs = [run for suite in suites for run in suite.runs()]
    for requested, available in (
        (datasets, {run.dataset for run in runs}),
        (methods, {run.method for run in runs}),
    ):
        if unknown := set(requested or ()) - available:
            raise ValueError(f"unknown: {sorted(unknown)}. Choose from {sorted(available)}.")
    index, count = map(int, part.split("/"))
    if not 0 <= index < count:
        raise ValueError(f"--part {part}: the first number must be in 0..{count - 1}.")
    chosen = [
        run
        for run in runs
        if (not datasets or run.dataset in datasets) and (not methods or run.method in methods)
    ]
    return chosen[index::count]


def missing_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs without a result file, except those whose raw files are not available."""
    missing = [run for run in runs if not run.done]
    if "GSX_RAW_DATA" in os.environ:
        return missing
    skipped = sorted({run.dataset for run in missing if run.needs_raw_data})
    if skipped:
        print(f"skipped, GSX_RAW_DATA is not set: {', '.join(skipped)}", flush=True)
    return [run for run in missing if not run.needs_raw_data]


def run_all(runs: Sequence[Run]) -> int:
    """Execute missing runs one after the other; failures are listed at the end."""
    missing = missing_runs(runs)
    failed = []
    if any(run.follows_protocol for run in missing) and not protocol()["frozen"]:
        print("experiments/protocol.toml is not frozen: these runs would not follow it.")
        return 1
    print(f"{len(runs)} runs, {len(missing)} to do", flush=True)
    for number, run in enumerate(missing, start=1):
        print(f"[{number}/{len(missing)}] {run.result}", flush=True)
        try:
            execute(run)
        except subprocess.CalledProcessError as error:
            failed.append(f"{run.result}: exit code {error.returncode} of {shlex.join(error.cmd)}")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def execute(run: Run) -> None:
    """Execute the commands of a run and write its result file."""
    *steps, final = run.steps
    keys: dict[str, str] = {}
    for step in steps:
        keys[step.artifact] = run_json(_with_keys(step.command, keys))["key"]
    path = ROOT / run.result
    match final.command[1]:
        case "train":  # gsx writes the result file
            short_keys = {name: key[:SHORT_KEY] for name, key in keys.items()}
            run_gsx(_with_keys(final.command, short_keys))
            if run.follows_protocol:
                _record_protocol(path)
        case "pretrain":
            built = run_json(_with_keys(final.command, keys))
            _write(path, json.dumps(pretraining_result(run, keys["SOURCE"], built), indent=2))
        case _:
            _write(path, run_gsx((*final.command, "--json"), capture=True).rstrip("\n"))


def run_gsx(command: Sequence[str], *, capture: bool = False) -> str:
    """Run a command at the root of the repository; return its output if captured.

    A process per command, because a result file records the command line of the process.
    """
    program, *words = command
    done = subprocess.run(
        [*PROGRAMS[program], *words],
        cwd=ROOT,
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=True,
    )
    return done.stdout or ""


@cache
def run_json(command: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON output of a command; the same command runs once per process."""
    document: dict[str, Any] = json.loads(run_gsx((*command, "--json"), capture=True))
    return document


def pretraining_result(run: Run, source: str, built: Mapping[str, str]) -> dict[str, Any]:
    """Return the result document of a pretraining stage, from its artifact."""
    folder = ROOT / built["path"]
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    short_key = {"SOURCE": source[:SHORT_KEY]}
    return {
        "dataset": run.dataset,
        "stage": run.steps[-1].command[2],
        "stage_version": manifest["stage_version"],
        "config": manifest["config"],
        "key": built["key"],
        "corpus_key": source,
        "command": " && ".join(shlex.join(_with_keys(s.command, short_key)) for s in run.steps),
        "source": record["source"],
        "seconds": record["seconds"],
        "quality": manifest["summary"]["quality"],
    }


def protocol() -> dict[str, Any]:
    """Return the protocol of comparisons."""
    return tomllib.loads(PROTOCOL.read_text(encoding="utf-8"))


def protocol_digest() -> str:
    """Return the SHA-256 digest of the protocol."""
    return hashlib.sha256(PROTOCOL.read_bytes()).hexdigest()


def _record_protocol(path: Path) -> None:
    """Add the digest of the protocol to a result file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_bytes(result_json({**document, "protocol": protocol_digest()}))


def _with_keys(command: tuple[str, ...], keys: Mapping[str, str]) -> tuple[str, ...]:
    """Replace the words that stand for artifacts and for the folder of raw files."""
    return tuple(
        str(Path(os.environ["GSX_RAW_DATA"]) / word.removeprefix(RAW_FOLDER))
        if word.startswith(RAW_FOLDER)
        else keys.get(word, word)
        for word in command
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def _listing(run: Run) -> str:
    state = "exists" if run.done else "missing"
    return "\n".join(
        [f"# {run.result} ({state})", *(shlex.join(step.command) for step in run.steps)]
    )


def _comma_separated(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
