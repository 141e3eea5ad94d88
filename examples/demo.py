"""The demo: make a real out-of-distribution corpus, look at it, read it with and without gsx."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).parent
GSX = (sys.executable, "-m", "gsx")


def gsx(*words: str) -> None:
    """Run a gsx command as a person would, and show both."""
    print(f"\n$ gsx {' '.join(words)}", flush=True)
    subprocess.run([*GSX, *words], check=True)


def main() -> None:
    """Run the demo."""
    recipe = str(HERE / "motif.toml")
    gsx("run", recipe)
    made = subprocess.run([*GSX, "run", recipe, "--json"], check=True, capture_output=True)
    corpus = json.loads(made.stdout)["steps"][0]
    key = corpus["key"][:12]
    gsx("show", key)
    gsx("describe", key)
    gsx("verify", key)

    print("\nNow pieces are learned, bridges are learned, and graphs are spliced:")
    recipe = str(HERE / "splice.toml")
    gsx("generate", recipe)
    made = subprocess.run([*GSX, "generate", recipe, "--json"], check=True, capture_output=True)
    spliced = json.loads(made.stdout)
    gsx("show", spliced["key"][:12])
    gsx("lineage", spliced["key"][:12])

    print("\nThe same file, read by plain pyarrow, without gsx:")
    shards = sorted((Path(corpus["path"]) / "data").glob("ood_test-*.parquet"))
    table = pq.read_table(shards[0], columns=["graph_id", "num_nodes", "edge_src", "y"])
    for row in table.slice(0, 3).to_pylist():
        print(
            f"  graph {row['graph_id']}: {row['num_nodes']} nodes, "
            f"{len(row['edge_src'])} stored edges, y = {row['y']}"
        )

    import gsx as api

    batch = next(iter(api.open(spliced["path"]).loader(256, split="train", shuffle=True)))
    print("\nOne shuffled batch of training graphs, as PyG wants it:")
    print(f"  {batch}")
    print(f"\nThe source corpus is in {corpus['path']}")
    print(f"The augmented corpus is in {spliced['path']}")


if __name__ == "__main__":
    main()
