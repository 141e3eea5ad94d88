"""`gsx demo`: a tour of the pipeline on a synthetic dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from gsx.cli.options import store_option
from gsx.cli.output import echo

DATASET = "fsmotif-size-color"
"""Motifs on base graphs with colored nodes; sizes and colors shift between the splits."""
STEPS = "3000"
"""Gradient steps without and with new graphs, as in the experiments with recommended recipes."""
REPORT = "demo-report.html"
READ = """\
import pyarrow.parquet as pq

table = pq.read_table({shard!r}, columns=["graph_id", "num_nodes", "y"])
for row in table.slice(0, 3).to_pylist():
    print(f"graph {{row['graph_id']}}: {{row['num_nodes']}} nodes, y = {{row['y']}}")
"""
LOAD = """\
import gsx

corpus = gsx.open({key!r})
print(corpus)
print(next(iter(corpus.loader(256, split="train", shuffle=True))))
"""


@click.command(short_help="Run a tour of the pipeline (minutes).")
@store_option
@click.option(
    "--num-graphs", type=int, help="Graphs of all splits together.  [default: as published, 3,000]"
)
@click.option(
    "--budget",
    default="3m",
    show_default=True,
    metavar="TIME",
    help="Computing time to compare recipes.",
)
def demo(*, store: str | None, num_graphs: int | None, budget: str) -> None:
    """Build an OOD corpus, find out which recipe helps, and train with and without new graphs.

    Nothing is downloaded. Corpora go to the store, and a report to demo-report.html in the current
    directory. A second run reuses what exists.
    """
    tour = Tour({} if store is None else {"GSX_STORE": store})
    size = () if num_graphs is None else ("--num-graphs", str(num_graphs))
    tour.run("prepare", DATASET, *size)
    source = tour.json("prepare", DATASET, *size)
    key = source["key"][:12]
    for command in ("show", "describe", "verify"):
        tour.run(command, key)

    echo("", "Find out by validation data which recipe helps, and generate its graphs:")
    tour.run("generate", key, "--budget", budget)
    generated = tour.json("generate", key, "--budget", budget)
    new = generated["key"][:12]
    tour.run("recommend", key, "--budget", budget)
    for command in ("show", "lineage"):
        tour.run(command, new)

    echo("", "Read a shard with pyarrow, without gsx:")
    shards = sorted((Path(source["path"]) / "data").glob("ood_test-*.parquet"))
    tour.python(READ.format(shard=str(shards[0])))
    echo("", "Load shuffled PyG batches:")
    tour.python(LOAD.format(key=new))

    if generated["key"] == source["key"]:
        echo("", "No recipe helps with high probability, so there is nothing to compare.")
    else:
        _compare(tour, new)
    tour.run("report", new, "-o", REPORT)
    echo(
        "",
        f"Source corpus:    {source['path']}",
        f"Augmented corpus: {generated['path']}",
        f"Report:           {REPORT} (open it in a browser)",
    )


class Tour:
    """Runs commands and Python code in processes of their own, as a user would, and prints them."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.environment = {**os.environ, **variables}

    def run(self, *arguments: str) -> None:
        """Print a gsx command and run it."""
        echo("", f"$ gsx {' '.join(arguments)}")
        self._call([sys.executable, "-m", "gsx", *arguments])

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run a gsx command with ``--json`` and return its output."""
        command = [sys.executable, "-m", "gsx", *arguments, "--json"]
        document: dict[str, Any] = json.loads(self._call(command, stdout=subprocess.PIPE))
        return document

    def python(self, code: str) -> None:
        """Print Python code and run it."""
        echo("", *(f"    {line}" for line in code.splitlines()), "")
        self._call([sys.executable, "-c", code])

    def _call(self, command: list[str], stdout: int | None = None) -> str:
        sys.stdout.flush()
        done = subprocess.run(command, env=self.environment, stdout=stdout, text=True, check=False)
        if done.returncode:  # the command has printed its error
            raise click.exceptions.Exit(done.returncode)
        return done.stdout or ""


def _compare(tour: Tour, key: str) -> None:
    """Train the same network without and with the new graphs, and print both scores."""
    echo("", "Train the same network without and with the new graphs:")
    lines = []
    for name, options in (
        ("without", ("--source-only", "--steps", STEPS)),
        ("with", ("--steps", STEPS)),
    ):
        tour.run("train", key, *options)
        model = tour.json("train", key, *options)["key"]
        row = tour.json("evaluate", model, key)["splits"]["ood_test"]
        low, high = row["interval"]
        lines.append(f"  {name:<8} {row['score']:5.1f} %  (95 % interval {low:.1f} to {high:.1f})")
    echo(
        "",
        "Accuracy on OOD test graphs, after the last epoch:",
        *lines,
        "This is a demo, not a result: one seed. Both runs took about the same number of",
        "steps. The intervals cover the sampling of the test graphs only; other seeds differ",
        "by more. docs/results.md has the results.",
    )
