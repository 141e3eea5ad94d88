"""Prepare HIV and colored MNIST with one process and with two: writes results/workers.json.

``GSX_RAW_DATA=DIR python bench/workers.py [hiv-scaffold|cmnist-color] [ROUNDS] [--more]``. Rounds
take turns; with ``--more`` they are added to those measured before, as a machine may not be free
for long. Every run notes seconds on the clock, of processor time here and in workers, and
``waited``: the share of the clock in which some process of the machine was kept from a processor
(``/proc/pressure/cpu``). Where that is much, others were at work too. The ratio of the clock is
that of the two best runs; the ratio of processor time is the work of one process against that of
this process plus half of that of two workers.
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
ITEMS = {"hiv-scaffold": 41_127, "cmnist-color": 6_000}


def main() -> None:
    chosen = [each for each in sys.argv[1:] if each in ITEMS] or list(ITEMS)
    rounds = next((int(each) for each in sys.argv[1:] if each.isdecimal()), ROUNDS)
    raw = Path(os.environ["GSX_RAW_DATA"])
    before = json.loads(RESULT.read_text()) if "--more" in sys.argv and RESULT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "HIV.csv"
        with gzip.open(raw / "hiv" / "HIV.csv.gz", "rt") as stream:
            table.write_text("".join(islice(stream, ITEMS["hiv-scaffold"] + 1)))
        work = {"hiv-scaffold": lambda: molecules(table), "cmnist-color": lambda: digits(raw)}
        for name in chosen:
            measured = before.get(name, {}).get("runs", {"1": [], "2": []})
            for _ in range(rounds):
                for workers, runs in measured.items():
                    runs.append(clocked(work[name], workers))
                    print(name, workers, runs[-1], flush=True)
            before[name] = {"items": ITEMS[name], **summed_up(measured)}
            RESULT.write_text(json.dumps({**stamp(), **before}, indent=2) + "\n")


def stamp():
    return {"command": COMMAND, "processors": len(os.sched_getaffinity(0))}


def molecules(table):
    """Read SMILES into features and scaffolds, split them, and make the graphs of all splits."""
    source = hiv.open_hiv(
        Order(name="hiv-scaffold", num_graphs=None, seed=0, raw={"hiv/HIV.csv": table})
    )
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def digits(raw):
    """Make the graphs of all splits of some digits."""
    files = dict(each.find(raw) for each in images.card("").raw)
    source = images.open_cmnist(
        Order(name=images.NAME, num_graphs=ITEMS[images.NAME], seed=0, raw=files)
    )
    return [source.build(split, 0, size) for split, size in source.split_sizes.items()]


def clocked(do, workers):
    """Run once, and return what it took."""
    os.environ[VARIABLE] = workers
    start, here, there, waits = time.perf_counter(), time.process_time(), children(), waited()
    do()
    clock = time.perf_counter() - start
    return {
        "clock": round(clock, 2),
        "here": round(time.process_time() - here, 2),
        "workers": round(children() - there, 2),
        "waited": round((waited() - waits) / clock, 2),
    }


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def waited():
    """Return the seconds so far in which some process was kept from a processor."""
    return int(Path("/proc/pressure/cpu").read_text().split()[4].removeprefix("total=")) / 1e6


def summed_up(measured):
    """Return all runs, and how many times faster two workers are."""
    alone = min(run["here"] for run in measured["1"])
    together = min(run["here"] + run["workers"] / 2 for run in measured["2"])
    one, two = (min(run["clock"] for run in runs) for runs in measured.values())
    return {
        "ratio_of_clock": round(one / two, 2),
        "ratio_of_processor_time": round(alone / together, 2),
        "runs": measured,
    }


if __name__ == "__main__":
    main()
