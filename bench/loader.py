"""Measure how fast PyG batches come from gsx and from its peers: ``python bench/loader.py``.

Every reader stores the same graphs and gives equal batches. Each measurement is a fresh process
that first reads a few other graphs in the same way, so imports are done, and all files as bytes, so
they lie in the page cache. Then it opens the data and reads it once (first epoch, opening included)
and again (later epochs). Readers take turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import corpora
import peers
from torch_geometric.data import Batch

from gsx.storage.corpus import open_corpus
from gsx.storage.corpus_writer import plan_shards
from gsx.storage.trust import cache_root
from gsx.table import GraphTable, concat

COMMAND = "python bench/loader.py"
RESULT = Path(__file__).parent / "results" / "loader.json"
GRAPHS, QUICK_GRAPHS, FEW_GRAPHS, WARM_GRAPHS, REPEATS = 100_000, 10_000, 5_000, 512, 3
PACKAGES = ("numpy", "pyarrow", "zarr", "torch", "torch-geometric", "datasets", "webdataset",
            "litdata")  # fmt: skip

Open = Callable[[Path], Iterable[Batch]]
Write = Callable[[Path, GraphTable], None]


@dataclass(frozen=True, slots=True)
class Reader:
    """One way from files to batches."""

    open: Open
    """Open a folder; every pass over what it returns is one epoch."""
    write: Write | None = None
    """Store graphs in a folder; None for gsx, whose readers share one corpus."""
    later: int = 1
    """Later epochs read by each process."""
    few: bool = False
    """Whether the reader is given fewer graphs, for it is only reported, not a bar."""


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, help=f"graphs to read, {GRAPHS} if not said")
    parser.add_argument("--quick", action="store_true", help="few graphs, once, in one process")
    parser.add_argument("--measure", nargs=3, metavar=("READER", "DATA", "WARM"))
    options = parser.parse_args()
    if options.measure:
        reader, data, warm = options.measure
        print(json.dumps(measure(reader, Path(data), Path(warm))))
        return
    graphs = options.graphs or (QUICK_GRAPHS if options.quick else GRAPHS)
    with corpora.workplace() as folder:
        warm = store(folder / "warm", WARM_GRAPHS)
        data = store(folder / "data", graphs)
        runs: dict[str, list[dict]] = {name: [] for name in READERS}
        for _ in range(1 if options.quick else REPEATS):
            for name in READERS:
                run = measure if options.quick else measure_afresh
                runs[name].append(run(name, data[name], warm[name]))
    check_same_batches(runs)
    result = summary(graphs, runs)
    show(result)
    if graphs == GRAPHS and not options.quick:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    missed = [name for name, bar in BARS.items() if result["ratios"][name] < bar]
    if missed and not options.quick:
        raise SystemExit(f"below the bar: {'; '.join(missed)}")


def store(folder: Path, graphs: int) -> dict[str, Path]:
    """Store the graphs in every format and return where each reader finds them."""
    corpus = corpora.publish(folder / "gsx", graphs, ("parquet", "zarr"))
    corpus.hot(build=True)
    shards = plan_shards({"train": graphs}, corpora.SHARD_GRAPHS)
    table = concat([corpora.make_shard(shard) for shard in shards])
    places = {}
    for name, reader in READERS.items():
        places[name] = Path(corpus.artifact.place.root)
        if reader.write is not None:
            places[name] = folder / name
            reader.write(places[name], table.slice(0, FEW_GRAPHS if reader.few else graphs))
    return places


def measure_afresh(name: str, data: Path, warm: Path) -> dict:
    """Measure one reader in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, str(data), str(warm)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, data: Path, warm: Path) -> dict:
    """Return graphs, seconds of the first and of later epochs, and a digest of a batch."""
    reader = READERS[name]
    few = list(reader.open(warm))
    read_bytes(data, cache_root())
    started = time.perf_counter()
    epochs = reader.open(data)
    graphs = read(epochs)
    seconds = [time.perf_counter() - started]
    for _ in range(reader.later):
        started = time.perf_counter()
        read(epochs)
        seconds.append(time.perf_counter() - started)
    return {"graphs": graphs, "seconds": seconds, "batch": digest(few[0])}


def read(epoch: Iterable[Batch]) -> int:
    return sum(batch.num_graphs for batch in epoch)


def read_bytes(*folders: Path) -> None:
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        with path.open("rb", buffering=0) as stream:
            while stream.read(1 << 24):
                pass


def digest(batch: Batch) -> str:
    """Return a hash of names, types, shapes and values of all attributes."""
    hashed = hashlib.sha256()
    for name in sorted(batch.keys()):
        array = batch[name].numpy()
        hashed.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return hashed.hexdigest()


def check_same_batches(runs: dict[str, list[dict]]) -> None:
    ordered = {name: run[0]["batch"] for name, run in runs.items() if "shuffled" not in name}
    if len(set(ordered.values())) != 1:
        raise SystemExit(f"readers give different batches: {ordered}")


def summary(graphs: int, runs: dict[str, list[dict]]) -> dict:
    speed = {
        name: {
            "graphs": found[0]["graphs"],
            "first_epoch_graphs_per_s": round(
                found[0]["graphs"] / statistics.median(run["seconds"][0] for run in found)
            ),
            "later_epoch_graphs_per_s": round(
                found[0]["graphs"]
                / statistics.median(later for run in found for later in run["seconds"][1:])
            ),
        }
        for name, found in runs.items()
    }
    return {
        "command": COMMAND,
        "graphs": graphs,
        "batch_size": peers.BATCH,
        "readers": speed,
        "ratios": ratios(speed),
        "bars": BARS,
        "cpus": os.cpu_count(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }


def ratios(speed: dict[str, dict]) -> dict[str, float]:
    """Compare; gsx with its first epoch, opening included, OnDiskDataset with its better one."""
    first = {name: found["first_epoch_graphs_per_s"] for name, found in speed.items()}
    later = {name: found["later_epoch_graphs_per_s"] for name, found in speed.items()}
    found = {}
    for ours in ("Parquet", "hot cache"):
        fast = first[f"gsx, {ours}"]
        found[f"{ours} / InMemoryDataset, first epoch"] = fast / first["PyG InMemoryDataset"]
        found[f"{ours} / InMemoryDataset, later epochs"] = fast / later["PyG InMemoryDataset"]
        for name in ("PyG OnDiskDataset", "litdata", "WebDataset", "Hugging Face datasets"):
            theirs = max(first[name], later[name])
            found[f"{ours} / {name.removeprefix('PyG ')}"] = fast / theirs
    shuffled, ordered = later["gsx, hot cache, shuffled"], later["gsx, hot cache"]
    found["hot cache shuffled / in order"] = shuffled / ordered
    return {name: round(value, 2) for name, value in found.items()}


def show(result: dict) -> None:
    print(f"{'graphs/s':<28}{'graphs':>9}{'first epoch':>14}{'later epochs':>14}")
    for name, found in result["readers"].items():
        first, later = found["first_epoch_graphs_per_s"], found["later_epoch_graphs_per_s"]
        print(f"{name:<28}{found['graphs']:>9,}{first:>14,}{later:>14,}")
    print(f"\n{'ratio':<46}{'measured':>10}{'bar':>9}")
    for name, ratio in result["ratios"].items():
        bar = BARS.get(name)
        verdict = "" if bar is None else f"{bar:>9g}  {'pass' if ratio >= bar else 'FAIL'}"
        print(f"{name:<46}{ratio:>10.2f}{verdict}")


if __name__ == "__main__":
    main()
