"""Measure the memory of preparing a large table: ``GSX_RAW_DATA=DIR python bench/zinc.py``.

Prepares the first 50,000 and all 249,455 molecules of ZINC-250k from a CSV table, split by
scaffold, each in a new process, with 10,000 graphs per file so that both runs fill files. Peak
memory should not grow with the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path

from lib import harness

NAME = "zinc"
ROWS = (50_000, 249_455)
PREPARE = """
import resource, sys
from gsx.cli.main import cli
cli(sys.argv[1:], standalone_mode=False)
own, workers = (resource.getrusage(who).ru_maxrss // 1024
                for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(own, workers, file=sys.stderr)
"""


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    archive = harness.raw_data() / "zinc250k" / "zinc.txt.tar.gz"
    with tarfile.open(archive) as files:
        (member,) = (file for file in files if file.isfile() and Path(file.name).name == "zinc.txt")
        stream = files.extractfile(member)
        assert stream is not None
        smiles = stream.read().decode().split()
    assert len(smiles) == ROWS[-1]
    with tempfile.TemporaryDirectory() as folder:
        measured = {rows: measure(Path(folder), smiles[:rows]) for rows in ROWS}
    small, large = (measured[rows]["peak_mib"] for rows in ROWS)
    result = {
        "command": harness.command_line(NAME, raw_data=True),
        "molecules": measured,
        "peak_ratio": round(large / small, 2),
        "table_ratio": round(ROWS[1] / ROWS[0], 2),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))


def measure(folder: Path, smiles: list[str]) -> dict[str, float]:
    """Prepare a table of molecules whose target is the length of the SMILES."""
    table = folder / f"zinc{len(smiles)}.csv"
    table.write_text("smiles,length\n" + "".join(f"{text},{len(text)}\n" for text in smiles))
    words = ["prepare", "--smiles", str(table), "--target", "length", "--task", "regression",
             "--domain", "scaffold", "--shard-graphs", "10000", "--store", str(folder / "store"),
             "--json"]  # fmt: skip
    command = [sys.executable, "-c", PREPARE, *words]
    seconds, done = harness.timed(
        partial(subprocess.run, command, capture_output=True, text=True, check=True)
    )
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
