"""Measure how fast a corpus is written and published: ``python bench/writer.py``.

The time covers everything after the graphs exist in memory: validation, shard statistics, encoding,
hashing, flushing to disk and publishing. The baseline is pyarrow, which writes the same shards to
plain Parquet files.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pyarrow.parquet as pq
from lib import corpora, harness

from gsx.storage.artifacts.atomic_files import remove_tree
from gsx.storage.corpora.arrow import to_arrow
from gsx.storage.corpora.corpus_writer import Format, Shard, plan_shards
from gsx.table import GraphTable

NAME = "writer"
GRAPHS, ROUNDS, BAR = 100_000, 5, 50_000
PARQUET, ZARR, PYARROW = "gsx, Parquet", "gsx, Zarr", "pyarrow, no hash"


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument(
        "--graphs", type=int, default=GRAPHS, help="any other number than %(default)s is a dry run"
    )
    options = parser.parse_args(arguments)
    shards = plan_shards({"train": options.graphs}, corpora.SHARD_GRAPHS)
    tables = {shard: corpora.make_shard(shard) for shard in shards}
    seconds: dict[str, list[float]] = {PARQUET: [], ZARR: [], PYARROW: []}
    with corpora.temporary_directory() as folder:
        corpora.publish(folder / "warm", 512, ("parquet",))
        corpora.publish(folder / "warm", 512, ("zarr",))
        for _ in range(ROUNDS):
            seconds[PARQUET].append(gsx_seconds(folder / "store", "parquet", tables))
            seconds[ZARR].append(gsx_seconds(folder / "store", "zarr", tables))
            seconds[PYARROW].append(pyarrow_seconds(folder / "plain", tables))
    rates = {name: round(options.graphs / statistics.median(s)) for name, s in seconds.items()}
    result = {
        "command": harness.command_line(NAME),
        "graphs": options.graphs,
        "graphs_per_s": rates,
        "ratios": {
            "Parquet / pyarrow": round(rates[PARQUET] / rates[PYARROW], 2),
            "Zarr / pyarrow": round(rates[ZARR] / rates[PYARROW], 2),
        },
        "bar_graphs_per_s": BAR,
        "cpus": os.cpu_count(),
        "versions": harness.versions("numpy", "pyarrow", "zarr"),
    }
    show(rates)
    harness.write_result(NAME, result, dry_run=options.dry_run or options.graphs != GRAPHS)
    harness.require(harness.at_least(rates, {PARQUET: BAR, ZARR: BAR}))


def gsx_seconds(store: Path, file_format: Format, tables: dict[Shard, GraphTable]) -> float:
    """Return the seconds to write and publish the tables as one artifact."""
    remove_tree(store)
    graphs = sum(len(table) for table in tables.values())
    started = time.perf_counter()
    corpora.publish(store, graphs, (file_format,), tables.__getitem__)
    return time.perf_counter() - started


def pyarrow_seconds(folder: Path, tables: dict[Shard, GraphTable]) -> float:
    """Return the seconds of pyarrow with default encodings, without hashing and flushing."""
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


def show(rates: dict[str, int]) -> None:
    print(f"{'writing':<24}{'graphs/s':>10}{'ratio':>8}")
    for name, rate in rates.items():
        print(f"{name:<24}{rate:>10,}{rate / rates[PYARROW]:>8.2f}")
    print(f"bar: {BAR:,} graphs/s in one process, hashing and flushing included")


if __name__ == "__main__":
    main()
