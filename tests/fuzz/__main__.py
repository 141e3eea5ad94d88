"""Fuzz gsx with hostile input: ``python -m tests.fuzz --minutes 10 --seed 7 --target artifact``.

Every case follows from target, seed and number. A failure is written to the output directory as
JSON that ``--replay FILE`` runs again. The exit code is 1 if there was any failure.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.runner import Failure, Tally, case_of, minimize, run_target
from tests.fuzz.sandbox import delete
from tests.fuzz.seeds import CATALOGUE
from tests.fuzz.target import Target
from tests.fuzz.targets import make_targets

REGRESSIONS = Path(__file__).parent / "regressions"


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--inputs", type=int, help="cases per target [default: until the time is over]"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0, help="time of all targets together")
    parser.add_argument("--target", action="append", help="a target; repeatable [default: all]")
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-results"), help="failures and summary"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes that run cases")
    parser.add_argument(
        "--replay", type=Path, nargs="+", help="run these cases; random ones only with --inputs"
    )
    parser.add_argument("--light", action="store_true", help="skip seeds that need training")
    parser.add_argument("--no-minimize", action="store_true")
    parser.add_argument("--keep-seeds", type=Path, help="directory of seeds to reuse or create")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run targets, print the summary and return the exit code."""
    options = parse_arguments(arguments)
    memory = Path("/dev/shm")  # in memory: fsync of many small files is slow on disks
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(
        prefix="gsx-fuzz-", dir=place, ignore_cleanup_errors=True
    ) as name:
        base = Path(name)
        base.chmod(0o755)
        seeds = build_seeds(options.keep_seeds or base / "seeds", light=options.light)
        import_everything()
        for number in range(options.jobs):
            (base / f"{number}" / "box").mkdir(parents=True)
        targets = make_targets(seeds, json.loads((seeds / CATALOGUE).read_text()))
        try:
            bases = [base / str(number) for number in range(options.jobs)]
            failed = replay(targets, options.replay, bases) if options.replay else 0
            if options.inputs is not None or not options.replay:
                failed |= fuzz(targets, options, base)
            return failed
        finally:
            delete(base)


def build_seeds(folder: Path, *, light: bool) -> Path:
    """Build the seeds in another process, so that no thread of it is in this one."""
    if not (folder / CATALOGUE).exists():
        command = [sys.executable, "-m", "tests.fuzz.seeds", folder, *(["light"] if light else [])]
        subprocess.run(command, check=True)
    return folder.absolute()


def import_everything() -> None:
    """Import once what every case needs; forked processes share it."""
    import duckdb  # noqa: F401
    import safetensors.numpy
    import torch
    import torch_geometric.data
    import zarr  # noqa: F401

    import gsx

    assert safetensors.numpy
    assert torch_geometric.data
    for module in pkgutil.walk_packages(gsx.__path__, "gsx."):
        if not module.name.endswith(("__main__", "load_pyg")):
            importlib.import_module(module.name)
    torch.set_num_threads(1)


def fuzz(targets: dict[str, Target], options: argparse.Namespace, base: Path) -> int:
    """Run random cases of the chosen targets."""
    chosen = {
        name: target
        for name, target in targets.items()
        if not options.target or name in options.target
    }
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    summary: dict[str, Any] = {"seed": options.seed, "targets": {}}
    failed = False
    for position, (name, target) in enumerate(chosen.items()):
        remaining = options.minutes * 60 - (time.monotonic() - started)
        share = target.weight / sum(t.weight for t in list(chosen.values())[position:])
        found: list[Failure] = []
        numbers = itertools.count(options.first)
        if options.inputs:
            numbers = itertools.islice(numbers, options.inputs)
        cases = ((index, case_of(target, options.seed, index)) for index in numbers)
        stop_at = time.monotonic() + remaining * share
        bases = [base / str(number) for number in range(options.jobs)]
        tally = run_target(target, cases, bases, stop_at, found.append)
        summary["targets"][name] = tally.as_json()
        for failure in found:
            failed = True
            save(target, failure, options, base)
        show(name, tally)
        (options.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    return int(failed)


def save(target: Target, failure: Failure, options: argparse.Namespace, base: Path) -> None:
    """Write a failure with a minimal case."""
    case = failure.case if options.no_minimize else minimize(target, failure, base / "0")
    slug = re.sub(r"[^a-z0-9]+", "-", failure.signature.lower()).strip("-")[:90]
    content = {
        "failure": failure.kind,
        "operation": failure.operation,
        "detail": failure.detail,
        "seed": options.seed,
        "index": failure.index,
        "case": case,
    }
    path = options.out / f"{target.name}-{slug}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")


def show(name: str, tally: Tally) -> None:
    """Print the figures of a target and its failures."""
    figures = tally.as_json()
    classes = figures.pop("classes")
    rate = tally.inputs / max(tally.seconds, 0.001)
    print(f"{name}: {json.dumps(figures)} {rate:.0f} inputs/s", flush=True)
    for failure in tally.failures:
        count = classes[failure.signature]
        print(
            f"  {count:5} x {failure.kind} [{failure.operation}] {failure.detail[:160]!r}"
            f" (case {failure.index})",
            flush=True,
        )


def replay(targets: dict[str, Target], files: list[Path], bases: list[Path]) -> int:
    """Run stored cases again and return 1 if any fails."""
    failed = skipped = 0
    for name, target in targets.items():
        stored = [(file, json.loads(file.read_text())["case"]) for file in files]
        cases = [(file, case) for file, case in stored if case["target"] == name]
        usable = [
            (number, case) for number, (_, case) in enumerate(cases) if target.has_seeds(case)
        ]
        skipped += len(cases) - len(usable)
        tally = run_target(target, iter(usable), bases, time.monotonic() + 600)
        failed += len({failure.index for failure in tally.failures})
        for failure in tally.failures:
            file = cases[failure.index][0].name
            print(f"FAILED {file}: {failure.kind} [{failure.operation}] {failure.detail}")
    print(f"{len(files)} cases, {skipped} skipped without their seeds, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
