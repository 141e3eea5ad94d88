"""Measure how fast gsx and other libraries read PyG batches: ``python bench/loader.py``.

Every reader stores the same graphs and returns equal batches. Each measurement is a new process
that first reads a few other graphs in the same way, so that imports are done, and then reads all
files as bytes, so that they are in the page cache. It then opens the data and reads it once (first
epoch, opening included) and again (later epochs). Readers run in turn.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib import corpora, harness, peers
from torch_geometric.data import Batch

from gsx.storage.artifacts.verification_cache import cache_root
from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.corpus_writer import plan_shards
from gsx.table import GraphTable, concat

NAME = "loader"
GRAPHS, QUICK_GRAPHS, FEW_GRAPHS, WARM_GRAPHS, ROUNDS = 100_000, 10_000, 5_000, 512, 3
PACKAGES = ("numpy", "pyarrow", "zarr", "torch", "torch-geometric", "datasets", "webdataset",
            "litdata")  # fmt: skip

Open = Callable[[Path], Iterable[Batch]]
Write = Callable[[Path, GraphTable], None]
Run = dict[str, Any]
"""Number of graphs, seconds of every epoch and digest of a batch."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A storage format and its reader."""

    open: Open
    """Open a directory; every iteration of the result is one epoch."""
    write: Write | None = None
    """Store graphs in a directory; None for gsx, whose readers share one corpus."""
    later: int = 1
    """Number of later epochs that each process reads."""
    few: bool = False
    """Use fewer graphs: no bar depends on this reader."""


def open_parquet(folder: Path) -> Iterable[Batch]:
    return open_corpus(folder, format="parquet").loader(peers.BATCH, cache="never")


def open_zarr(folder: Path) -> Iterable[Batch]:
    return open_corpus(folder, format="zarr").loader(peers.BATCH, cache="never")


def open_hot(folder: Path) -> Iterable[Batch]:
    return open_corpus(folder).loader(peers.BATCH)


def open_hot_shuffled(folder: Path) -> Iterable[Batch]:
    return open_corpus(folder).loader(peers.BATCH, shuffle=True)


READERS = {
    "gsx, Parquet": Reader(open_parquet, later=3),
    "gsx, Zarr": Reader(open_zarr, later=3),
    "gsx, hot cache": Reader(open_hot, later=9),
    "gsx, hot cache, shuffled": Reader(open_hot_shuffled, later=9),
    "PyG InMemoryDataset": Reader(peers.open_in_memory, peers.write_in_memory),
    "PyG OnDiskDataset": Reader(peers.open_on_disk, peers.write_on_disk),
    "litdata": Reader(peers.open_litdata, peers.write_litdata, few=True),
    "WebDataset": Reader(peers.open_webdataset, peers.write_webdataset, few=True),
    "Hugging Face datasets": Reader(peers.open_hugging_face, peers.write_hugging_face, few=True),
}
BARS = {
    "Parquet / InMemoryDataset, first epoch": 10,
    "Parquet / InMemoryDataset, later epochs": 4,
    "Parquet / OnDiskDataset": 7,
    "hot cache / InMemoryDataset, first epoch": 40,
    "hot cache / InMemoryDataset, later epochs": 15,
    "hot cache / OnDiskDataset": 30,
    "hot cache shuffled / in order": 0.5,
}


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--graphs", type=int, help=f"any other number than {GRAPHS} is a dry run")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_GRAPHS} graphs, one round, one process; no result file and no bars",
    )
    parser.add_argument("--measure", nargs=3, metavar=("READER", "DATA", "WARM"), help="internal")
    options = parser.parse_args(arguments)
    if options.measure:
        reader, data, warm = options.measure
        print(json.dumps(measure(reader, Path(data), Path(warm))))
        return
    graphs = options.graphs or (QUICK_GRAPHS if options.quick else GRAPHS)
    with corpora.temporary_directory() as folder:
        warm_paths = store(folder / "warm", WARM_GRAPHS)
        data_paths = store(folder / "data", graphs)
        runs: dict[str, list[Run]] = {name: [] for name in READERS}
        for _ in range(1 if options.quick else ROUNDS):
            for name in READERS:
                run = measure if options.quick else measure_in_new_process
                runs[name].append(run(name, data_paths[name], warm_paths[name]))
    check_same_batches(runs)
    result = summary(graphs, runs)
    show(result)
    full = graphs == GRAPHS and not options.quick
    harness.write_result(NAME, result, dry_run=options.dry_run or not full)
    if not options.quick:
        harness.require(harness.at_least(result["ratios"], BARS))


def store(folder: Path, graphs: int) -> dict[str, Path]:
    """Store the graphs in every format and return the directory of each reader."""
    corpus = corpora.publish(folder / "gsx", graphs, ("parquet", "zarr"))
    corpus.hot(build=True)
    shards = plan_shards({"train": graphs}, corpora.SHARD_GRAPHS)
    table = concat([corpora.make_shard(shard) for shard in shards])
    paths = {}
    for name, reader in READERS.items():
        paths[name] = Path(corpus.artifact.location.root)
        if reader.write is not None:
            paths[name] = folder / name
            reader.write(paths[name], table.slice(0, FEW_GRAPHS if reader.few else graphs))
    return paths


def measure_in_new_process(name: str, data: Path, warm: Path) -> Run:
    return harness.rerun(__file__, "--measure", name, data, warm)


def measure(name: str, data: Path, warm: Path) -> Run:
    """Return graphs, seconds of the first and of later epochs, and a digest of a batch."""
    reader = READERS[name]
    warm_batches = list(reader.open(warm))
    read_bytes(data, cache_root())
    started = time.perf_counter()
    batches = reader.open(data)
    graphs = read(batches)
    seconds = [time.perf_counter() - started]
    for _ in range(reader.later):
        started = time.perf_counter()
        read(batches)
        seconds.append(time.perf_counter() - started)
    return {"graphs": graphs, "seconds": seconds, "batch": digest(warm_batches[0])}


def read(batches: Iterable[Batch]) -> int:
    """Read one epoch and return the number of graphs."""
    return sum(batch.num_graphs for batch in batches)


def read_bytes(*folders: Path) -> None:
    """Read all files, so that they are in the page cache."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        with path.open("rb", buffering=0) as stream:
            while stream.read(1 << 24):
                pass


def digest(batch: Batch) -> str:
    """Return a hash of names, types, shapes and values of all attributes."""
    sha256 = hashlib.sha256()
    for name in sorted(batch.keys()):
        array = batch[name].numpy()
        sha256.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return sha256.hexdigest()


def check_same_batches(runs: dict[str, list[Run]]) -> None:
    digests = {name: run[0]["batch"] for name, run in runs.items() if "shuffled" not in name}
    if len(set(digests.values())) != 1:
        raise SystemExit(f"readers return different batches: {digests}")


def summary(graphs: int, runs: dict[str, list[Run]]) -> harness.Result:
    readers = {}
    for name, rounds in runs.items():
        size = rounds[0]["graphs"]
        first = statistics.median(run["seconds"][0] for run in rounds)
        later = statistics.median(seconds for run in rounds for seconds in run["seconds"][1:])
        readers[name] = {
            "graphs": size,
            "first_epoch_graphs_per_s": round(size / first),
            "later_epoch_graphs_per_s": round(size / later),
        }
    return {
        "command": harness.command_line(NAME),
        "graphs": graphs,
        "batch_size": peers.BATCH,
        "readers": readers,
        "ratios": ratios(readers),
        "bars": BARS,
        "cpus": os.cpu_count(),
        "versions": harness.versions(*PACKAGES),
    }


def ratios(readers: dict[str, dict[str, int]]) -> dict[str, float]:
    """Return ratios of graphs per second.

    gsx is compared by its first epoch, opening included. ``InMemoryDataset`` is compared by its
    first and by its later epochs, every other peer by the faster of both.
    """
    first = {name: rates["first_epoch_graphs_per_s"] for name, rates in readers.items()}
    later = {name: rates["later_epoch_graphs_per_s"] for name, rates in readers.items()}
    values = {}
    for source in ("Parquet", "hot cache"):
        gsx = first[f"gsx, {source}"]
        values[f"{source} / InMemoryDataset, first epoch"] = gsx / first["PyG InMemoryDataset"]
        values[f"{source} / InMemoryDataset, later epochs"] = gsx / later["PyG InMemoryDataset"]
        for name in ("PyG OnDiskDataset", "litdata", "WebDataset", "Hugging Face datasets"):
            peer = max(first[name], later[name])
            values[f"{source} / {name.removeprefix('PyG ')}"] = gsx / peer
    shuffled, in_order = later["gsx, hot cache, shuffled"], later["gsx, hot cache"]
    values["hot cache shuffled / in order"] = shuffled / in_order
    return {name: round(value, 2) for name, value in values.items()}


def show(result: harness.Result) -> None:
    print(f"{'graphs/s':<28}{'graphs':>9}{'first epoch':>14}{'later epochs':>14}")
    for name, rates in result["readers"].items():
        first, later = rates["first_epoch_graphs_per_s"], rates["later_epoch_graphs_per_s"]
        print(f"{name:<28}{rates['graphs']:>9,}{first:>14,}{later:>14,}")
    print(f"\n{'ratio':<46}{'measured':>10}{'bar':>9}")
    for name, ratio in result["ratios"].items():
        bar = BARS.get(name)
        verdict = "" if bar is None else f"{bar:>9g}  {'pass' if ratio >= bar else 'FAIL'}"
        print(f"{name:<46}{ratio:>10.2f}{verdict}")


if __name__ == "__main__":
    main()
