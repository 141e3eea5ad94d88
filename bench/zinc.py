"""Measure the memory a large table takes: ``GSX_RAW_DATA=DIR python bench/zinc.py``.

Prepares the first 50,000 and all 249,455 molecules of ZINC-250k from a CSV table, sorted by
scaffold, each in a process of its own, 10,000 graphs to a file, so that both have full files in
hand. The figure to look at is how the peak grows: it should not grow with the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

COMMAND = "GSX_RAW_DATA=DIR python bench/zinc.py"
RESULT = Path(__file__).parent / "results" / "zinc.json"
ROWS = (50_000, 249_455)
PREPARE = """
import resource, sys
from gsx.cli.main import cli
cli(sys.argv[1:], standalone_mode=False)
own, workers = (resource.getrusage(who).ru_maxrss // 1024
                for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(own, workers, file=sys.stderr)
"""


def main() -> None:
    archive = Path(os.environ["GSX_RAW_DATA"]) / "zinc250k" / "zinc.txt.tar.gz"
    with tarfile.open(archive) as files:
        (member,) = (each for each in files if each.isfile() and Path(each.name).name == "zinc.txt")
        texts = files.extractfile(member).read().decode().split()
    assert len(texts) == ROWS[-1]
    with tempfile.TemporaryDirectory() as folder:
        measured = {rows: measure(Path(folder), texts[:rows]) for rows in ROWS}
    small, large = (measured[rows]["peak_mib"] for rows in ROWS)
    result = {
        "command": COMMAND,
        "molecules": measured,
        "peak_ratio": round(large / small, 2),
        "table_ratio": round(ROWS[1] / ROWS[0], 2),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def measure(folder: Path, texts: list[str]) -> dict[str, float]:
    """Prepare a table of these molecules, what is learned being the length of the text."""
    table = folder / f"zinc{len(texts)}.csv"
    table.write_text("smiles,length\n" + "".join(f"{text},{len(text)}\n" for text in texts))
    words = ["prepare", "--smiles", str(table), "--target", "length", "--task", "regression",
             "--domain", "scaffold", "--shard-graphs", "10000", "--store", str(folder / "store"),
             "--json"]  # fmt: skip
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    own, workers = map(int, done.stderr.split()[-2:])
    return {
        "peak_mib": own,
        "peak_mib_of_a_worker": workers,
        "seconds": round(seconds, 1),
        "graphs": sum(json.loads(done.stdout)["counts"].values()),
        "table_mib": round(table.stat().st_size / 2**20, 1),
    }


if __name__ == "__main__":
    main()
