"""Prepare HIV and colored MNIST with one process and with two: writes results/workers.json.

``GSX_RAW_DATA=DIR python bench/workers.py [ROUNDS]``. Rounds take turns. Where a machine is shared,
seconds on the clock say little, so processor time is counted too: the work of one process against
that of this process plus half of that of two workers, which is what a machine with nothing else to
do takes if no work of this process is done beside that of the workers.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from gsx.stages.datasets import hiv, images
from gsx.stages.datasets.family import Order
from gsx.stages.datasets.workers import VARIABLE

COMMAND = "GSX_RAW_DATA=DIR python bench/workers.py"
RESULT = Path(__file__).parent / "results" / "workers.json"
ROUNDS = 3
MOLECULES, DIGITS = 41_127, 6_000


def main() -> None:
    raw = Path(os.environ["GSX_RAW_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "HIV.csv"
        with gzip.open(raw / "hiv" / "HIV.csv.gz", "rt") as stream:
            table.write_text("".join(islice(stream, MOLECULES + 1)))
        work = {"hiv-scaffold": lambda: molecules(table), "cmnist-color": lambda: digits(raw)}
        runs = {name: {1: [], 2: []} for name in work}
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
            for name, do in work.items():
                for workers, measured in runs[name].items():
                    measured.append(clocked(do, workers))
    result = {
        "command": COMMAND,
        "items": {"hiv-scaffold": MOLECULES, "cmnist-color": DIGITS},
        "processors": len(os.sched_getaffinity(0)),
        "load": [round(each, 1) for each in os.getloadavg()],
        **{name: summed_up(measured) for name, measured in runs.items()},
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def molecules(table):
    """Read SMILES into features and scaffolds, split them, and make the graphs of all splits."""
    source = hiv.open_hiv(
        Order(name="hiv-scaffold", num_graphs=None, seed=0, raw={"hiv/HIV.csv": table})
    )
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def digits(raw):
    """Make the graphs of all splits of some digits."""
    files = dict(each.find(raw) for each in images.card("").raw)
    source = images.open_cmnist(Order(name=images.NAME, num_graphs=DIGITS, seed=0, raw=files))
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def clocked(do, workers):
    """Return seconds on the clock, and of processor time here and in workers."""
    os.environ[VARIABLE] = str(workers)
    start, here, there = time.perf_counter(), time.process_time(), children()
    do()
    found = (time.perf_counter() - start, time.process_time() - here, children() - there)
    return [round(each, 2) for each in found]


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summed_up(measured):
    """Return the best of every way to count, and how many times faster two workers are."""
    one, two = measured[1], measured[2]
    alone = min(here + there for _, here, there in one)
    together = min(here + there / 2 for _, here, there in two)
    return {
        "clock_here_workers": measured,
        "ratio_of_processor_time": round(alone / together, 2),
        "ratio_of_best_clock": round(min(r[0] for r in one) / min(r[0] for r in two), 2),
        "ratios_of_clock": [round(a[0] / b[0], 2) for a, b in zip(one, two, strict=True)],
    }


if __name__ == "__main__":
    main()
