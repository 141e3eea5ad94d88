"""Read the molecules of HIV with one process and with two, side by side; writes workers.json."""

import csv
import gzip
import json
import os
import time
from pathlib import Path

from gsx.stages.datasets.molecules import read_smiles

RESULT = Path(__file__).parent / "results" / "workers.json"
ROUNDS = 5
MOLECULES = 16_384


def main():
    path = Path(os.environ["GSX_RAW_DATA"]) / "hiv" / "HIV.csv.gz"
    with gzip.open(path, "rt") as stream:
        texts = [row["smiles"] for row in csv.DictReader(stream)][:MOLECULES]
    seconds = {1: [], 2: []}
    for _ in range(ROUNDS):
        for workers, times in seconds.items():
            start = time.perf_counter()
            read_smiles(texts, workers)
            times.append(round(time.perf_counter() - start, 2))
    best = {workers: min(times) for workers, times in seconds.items()}
    result = {
        "molecules": len(texts),
        "seconds": seconds,
        "ratio_of_best": round(best[1] / best[2], 2),
        "ratios": [round(a / b, 2) for a, b in zip(*seconds.values(), strict=True)],
        "load": [round(each, 1) for each in os.getloadavg()],
        "processors": len(os.sched_getaffinity(0)),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
