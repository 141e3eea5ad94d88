"""The demo: find out which recipe helps, build its corpus, inspect it, read it, and train on it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

GSX = (sys.executable, "-m", "gsx")
DATASET = "fsmotif-size-color"
"""Motifs on base graphs with colored nodes; sizes and colors shift between the splits."""
EPOCHS, WIDTH = 60, "32"
"""Epochs of training without new graphs. Training with them takes the same number of steps."""


def run(*arguments: str) -> None:
    """Print a gsx command and run it."""
    print(f"\n$ gsx {' '.join(arguments)}", flush=True)
    subprocess.run([*GSX, *arguments], check=True)


def run_json(*arguments: str) -> dict:
    """Run a gsx command with ``--json`` and return its output."""
    result = subprocess.run([*GSX, *arguments, "--json"], check=True, capture_output=True)
    return json.loads(result.stdout)


def compare(key: str, source_graphs: int, graphs: int) -> None:
    """Train the same small network without and with the new graphs, and score both."""
    print("\nTrain the same small network without and with the new graphs:")
    epochs = max(round(EPOCHS * source_graphs / graphs), 1)
    without = ("--source-only", "--epochs", str(EPOCHS), "--width", WIDTH)
    lines = []
    for name, options in (
        ("without", without),
        ("with", ("--epochs", str(epochs), "--width", WIDTH)),
    ):
        run("train", key, *options)
        model = run_json("train", key, *options)["key"]
        row = run_json("evaluate", model, key)["splits"]["ood_test"]
        low, high = row["interval"]
        lines.append(f"  {name:<8} {row['score']:5.1f} %  (95 % interval {low:.1f} to {high:.1f})")
    print("\nAccuracy on OOD test graphs, after the last epoch:")
    print("\n".join(lines))
    print(
        "This is a demo, not a result: one seed and a small network. Both runs took about\n"
        "the same number of steps. The intervals cover the sampling of the test graphs only;\n"
        "other seeds differ by more. docs/results.md has the results at full size."
    )


def main() -> None:
    """Run the demo."""
    run("prepare", DATASET)
    source = run_json("prepare", DATASET)
    key = source["key"][:12]
    run("show", key)
    run("describe", key)
    run("verify", key)

    print("\nFind out by validation data which recipe helps, and generate its graphs:")
    run("generate", key)
    generated = run_json("generate", key)
    run("recommend", key, "--budget", "3m")
    run("show", generated["key"][:12])
    run("lineage", generated["key"][:12])

    print("\nRead a shard with pyarrow, without gsx:")
    shards = sorted((Path(source["path"]) / "data").glob("ood_test-*.parquet"))
    table = pq.read_table(shards[0], columns=["graph_id", "num_nodes", "edge_src", "y"])
    for row in table.slice(0, 3).to_pylist():
        print(
            f"  graph {row['graph_id']}: {row['num_nodes']} nodes, "
            f"{len(row['edge_src'])} stored edges, y = {row['y']}"
        )

    import gsx

    batch = next(iter(gsx.open(generated["path"]).loader(256, split="train", shuffle=True)))
    print("\nOne shuffled PyG batch of training graphs:")
    print(f"  {batch}")
    if generated["key"] == source["key"]:
        print("\nNo recipe helps with high probability, so there is nothing to compare.")
    else:
        counts = (source["counts"]["train"], generated["counts"]["train"])
        compare(generated["key"][:12], *counts)
    run("report", generated["key"][:12], "-o", "demo-report.html")
    print(f"\nSource corpus:    {source['path']}")
    print(f"Augmented corpus: {generated['path']}")
    print("Report:           demo-report.html (open it in a browser)")


if __name__ == "__main__":
    main()
