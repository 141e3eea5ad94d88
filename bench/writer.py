"""Measure how fast a corpus is written and published: ``python bench/writer.py``.

Everything counts but the making of the graphs: checks, facts, encoding, hashes, flushing to disk
and moving into place. Beside it, what pyarrow takes for the same shards in plain Parquet files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import corpora
import pyarrow.parquet as pq

from gsx.storage.arrow import to_arrow
from gsx.storage.corpus_writer import Format, Shard, plan_shards
from gsx.storage.disk import remove_tree
from gsx.table import GraphTable

COMMAND = "python bench/writer.py"
RESULT = Path(__file__).parent / "results" / "writer.json"
GRAPHS, REPEATS, BAR = 100_000, 5, 50_000
PACKAGES = ("numpy", "pyarrow", "zarr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    graphs = parser.parse_args().graphs
    shards = plan_shards({"train": graphs}, corpora.SHARD_GRAPHS)
    tables = {shard: corpora.make_shard(shard) for shard in shards}
    runs: dict[str, list[float]] = {"gsx, Parquet": [], "gsx, Zarr": [], "pyarrow, no hash": []}
    with corpora.workplace() as folder:
        for form in ("parquet", "zarr"):
            corpora.publish(folder / "warm", 512, (form,))
        for _ in range(REPEATS):
            runs["gsx, Parquet"].append(publish_seconds(folder / "store", "parquet", tables))
            runs["gsx, Zarr"].append(publish_seconds(folder / "store", "zarr", tables))
            runs["pyarrow, no hash"].append(plain_seconds(folder / "plain", tables))
    speed = {name: round(graphs / statistics.median(found)) for name, found in runs.items()}
    plain = speed["pyarrow, no hash"]
    result = {
        "command": COMMAND,
        "graphs": graphs,
        "graphs_per_s": speed,
        "ratios": {
            "Parquet / pyarrow": round(speed["gsx, Parquet"] / plain, 2),
            "Zarr / pyarrow": round(speed["gsx, Zarr"] / plain, 2),
        },
        "bar_graphs_per_s": BAR,
        "cpus": os.cpu_count(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }
    show(result)
    if graphs == GRAPHS:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if min(speed["gsx, Parquet"], speed["gsx, Zarr"]) < BAR:
        raise SystemExit(f"below the bar of {BAR:,} graphs/s")


def publish_seconds(store: Path, form: Format, tables: dict[Shard, GraphTable]) -> float:
    """Return how long it takes to write and publish the tables as one artifact."""
    remove_tree(store)
    graphs = sum(len(table) for table in tables.values())
    started = time.perf_counter()
    corpora.publish(store, graphs, (form,), tables.__getitem__)
    return time.perf_counter() - started


def plain_seconds(folder: Path, tables: dict[Shard, GraphTable]) -> float:
    """Return how long pyarrow takes, with its own encodings, no hash and no flush to disk."""
    remove_tree(folder)
    folder.mkdir()
    started = time.perf_counter()
    for shard, table in tables.items():
        pq.write_table(
            to_arrow(table, corpora.INFO),
            folder / f"{shard.number}.parquet",
            compression="zstd",
            compression_level=1,
        )
    return time.perf_counter() - started


def show(result: dict) -> None:
    print(f"{'writing':<24}{'graphs/s':>10}{'ratio':>8}")
    plain = result["graphs_per_s"]["pyarrow, no hash"]
    for name, speed in result["graphs_per_s"].items():
        print(f"{name:<24}{speed:>10,}{speed / plain:>8.2f}")
    print(f"bar: {BAR:,} graphs/s in one process, hashes and flushing included")


if __name__ == "__main__":
    main()
