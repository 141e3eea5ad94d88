"""Measure `gsx prepare` of HIV and colored MNIST with one worker process and with two.

    GSX_RAW_DATA=DIR python bench/workers.py [DATASET ...] [--rounds N] [--more]

Rounds alternate between one worker and two. ``--more`` adds rounds to those in the result file, for
machines that are not free for long. Every run records wall time (``clock``), CPU time of this
process (``here``) and of the workers, and ``waited``: the share of the wall time in which some
process of the machine waited for a CPU (``/proc/pressure/cpu``). A large share means that other
programs were running. ``ratio_of_clock`` compares the best runs. ``ratio_of_processor_time``
compares the CPU time of one process with the CPU time of this process plus half of that of two
workers.
"""

from __future__ import annotations

import gzip
import os
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from lib import harness

from gsx.stages.block_executor import VARIABLE
from gsx.stages.prepare.benchmarks import cmnist, hiv
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.table import GraphTable

NAME = "workers"
ROUNDS = 3
ITEMS = {"hiv-scaffold": 41_127, "cmnist-color": 6_000}

Run = dict[str, float]


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    harness.add_sections(parser, tuple(ITEMS), "DATASET")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--more", action="store_true", help="add to the rounds measured before")
    options = parser.parse_args(arguments)
    raw = harness.raw_data()
    result = harness.read_result(NAME) if options.more else {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "HIV.csv"
        with gzip.open(raw / "hiv" / "HIV.csv.gz", "rt") as stream:
            table.write_text("".join(islice(stream, ITEMS["hiv-scaffold"] + 1)))
        works: dict[str, Callable[[], object]] = {
            "hiv-scaffold": lambda: prepare_molecules(table),
            "cmnist-color": lambda: prepare_digits(raw),
        }
        for dataset in options.sections:
            runs: dict[str, list[Run]] = result.get(dataset, {}).get("runs", {"1": [], "2": []})
            for _ in range(options.rounds):
                for workers, measured in runs.items():
                    measured.append(measure(works[dataset], workers))
                    print(dataset, workers, measured[-1], flush=True)
            result[dataset] = {"items": ITEMS[dataset], **summary(runs)}
            header = {
                "command": harness.command_line(NAME, raw_data=True),
                "processors": harness.usable_cpus(),
            }
            harness.write_result(NAME, {**header, **result}, dry_run=options.dry_run)


def prepare_molecules(table: Path) -> list[GraphTable]:
    """Read SMILES into features and scaffolds, split them, and build the graphs of all splits."""
    source = hiv.open_hiv(
        DatasetRequest(name="hiv-scaffold", num_graphs=None, seed=0, raw={"hiv/HIV.csv": table})
    )
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def prepare_digits(raw: Path) -> list[GraphTable]:
    """Build the superpixel graphs of all splits of 6,000 digits."""
    files = dict(filter(None, (file.find(raw) for file in cmnist.metadata("").raw)))
    source = cmnist.open_cmnist(
        DatasetRequest(name=cmnist.NAME, num_graphs=ITEMS[cmnist.NAME], seed=0, raw=files)
    )
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def measure(work: Callable[[], object], workers: str) -> Run:
    """Run once with ``workers`` worker processes; return seconds and the share of waiting."""
    os.environ[VARIABLE] = workers
    started, own = time.perf_counter(), time.process_time()
    children, waited = children_seconds(), waited_seconds()
    work()
    clock = time.perf_counter() - started
    return {
        "clock": round(clock, 2),
        "here": round(time.process_time() - own, 2),
        "workers": round(children_seconds() - children, 2),
        "waited": round((waited_seconds() - waited) / clock, 2),
    }


def children_seconds() -> float:
    """Return the CPU seconds of finished child processes so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def waited_seconds() -> float:
    """Return the seconds so far in which some process of the machine waited for a CPU."""
    return int(Path("/proc/pressure/cpu").read_text().split()[4].removeprefix("total=")) / 1e6


def summary(runs: dict[str, list[Run]]) -> dict[str, object]:
    """Return all runs and the speed-up of two workers."""
    alone = min(run["here"] for run in runs["1"])
    together = min(run["here"] + run["workers"] / 2 for run in runs["2"])
    one, two = (min(run["clock"] for run in measured) for measured in runs.values())
    return {
        "ratio_of_clock": round(one / two, 2),
        "ratio_of_processor_time": round(alone / together, 2),
        "runs": runs,
    }


if __name__ == "__main__":
    main()
