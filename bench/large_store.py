"""Measure commands in a store with 10,000 artifacts: ``python bench/large_store.py``.

The store holds a corpus, an augmented corpus and small models that were trained on them. Each
command runs in a new process, and also in a store with 10 artifacts. Seconds are processor time
with the start of Python; memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lib import harness, memory
from lib.synthetic_models import write_model

from gsx.cli.main import main as gsx
from gsx.storage.artifacts.store import Store

NAME = "large_store"
SIZES, ROUNDS = (10, 10_000), 3
GENERATE = ("--options", "001", "--bridges", "none", "--count", "20")
BARS = {"ls": 4.0, "gc": 4.0, "generate": 4.0, "verify": 3.0, "peak_mib": 300}
"""Processor seconds of each command, and the largest peak memory, in the large store."""


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        metavar="WORD",
        help="run one command and print its time and memory",
    )
    options = parser.parse_args(arguments)
    if options.run:
        run_here(options.run)
        return
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    large = result["artifacts"][str(SIZES[-1])]
    figures = {name: large[name]["cpu_seconds"] for name in large}
    peak = max(figure["peak_mib"] for figure in large.values())
    harness.require(harness.at_most({**figures, "peak_mib": peak}, BARS))


def measure(folder: Path) -> harness.Result:
    """Return seconds and peak memory of every command, by number of artifacts."""
    figures = {}
    for count in SIZES:
        store = folder / str(count)
        key = build_store(store, count)
        commands = {
            "ls": ("ls",),
            "gc": ("gc",),
            "generate": ("generate", "motif-size", "--num-graphs", "100", *GENERATE),
            "verify": ("verify", key),
        }
        figures[str(count)] = {name: run_command(words, store) for name, words in commands.items()}
    return {
        "command": harness.command_line(NAME),
        "artifacts": figures,
        "rounds": ROUNDS,
        **harness.versions("msgspec"),
    }


def build_store(store: Path, count: int) -> str:
    """Build two corpora, add models until there are ``count`` artifacts; return the first key."""
    words = ("motif-size", "--num-graphs", 100, *GENERATE, "--store", store)
    harness.gsx_command("generate", *words)
    corpora = list(Store.at(store).artifacts("corpus"))
    for number in range(count - len(corpora)):
        write_model(store, corpora[number % len(corpora)].manifest, number)
    return corpora[0].key


def run_command(words: Sequence[str], store: Path) -> dict[str, float]:
    """Return median seconds and peak memory of a command in new processes."""
    runs = [harness.rerun(__file__, "--run", *words, "--store", store) for _ in range(ROUNDS)]
    return {
        "cpu_seconds": statistics.median(run["cpu_seconds"] for run in runs),
        "peak_mib": max(run["peak_mib"] for run in runs),
    }


def run_here(words: list[str]) -> None:
    """Run a command in this process and print its time and peak memory as JSON."""
    output = io.StringIO()
    sys.argv = ["gsx", *words]
    try:
        with contextlib.redirect_stdout(output):
            gsx()
    except SystemExit as end:
        if end.code:
            raise
    seconds = round(time.process_time(), 2)
    print(json.dumps({"cpu_seconds": seconds, "peak_mib": memory.peak_mib()}))


if __name__ == "__main__":
    main()
