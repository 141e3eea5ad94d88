"""Measure ranks, resuming and object stores: ``python bench/distributed_loading.py``.

- Ranks: one process reads shuffled epochs from the hot cache, then two processes share them. Rates
  count the graphs of all processes, from the start of the first to the end of the last. Every
  process has one CPU core. Without that limit, one process gathers ahead on a second core
  (``one, both cores``). Two processes that read all graphs each, without sharing anything
  (``two, independent``), show what the machine allows.
- Resume: seconds from opening a corpus of a million graphs to the first batch after a state in the
  middle of a shuffled epoch.
- Object store: graphs per second of streamed epochs from an S3 server on this machine and from
  local files, in turn.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import truediv
from pathlib import Path

import numpy as np
from lib import corpora, harness

from gsx.provenance import source_provenance
from gsx.ragged import pointers
from gsx.schema import ORIGINS, SPLITS
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus, open_corpus
from gsx.storage.corpora.corpus_writer import Shard
from gsx.storage.sharing.push_pull import push
from gsx.table import GraphTable

NAME = "distributed_loading"
GRAPHS, RESUMED_GRAPHS, BATCH = 100_000, 1_000_000, 256
EPOCHS, ROUNDS = 15, 7
BARS = {"two ranks / two independent processes": 0.9, "object store / local disk": 0.7}
LIMITS = {"resume seconds": 1.0}


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--rank", nargs=4, metavar=("CORPUS", "RANK", "SIZE", "GATE"),
                        help="read epochs as one of several processes")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.rank:
        corpus, rank, size, gate = options.rank
        read_as_rank(corpus, int(rank), int(size), Path(gate))
        return
    with corpora.temporary_directory() as folder:
        corpus = corpora.publish(folder / "store", GRAPHS)
        result = {
            "command": harness.command_line(NAME),
            "graphs": GRAPHS,
            "rounds": ROUNDS,
            "ranks": measure_ranks(corpus, folder),
            "resume": measure_resume(folder),
            "object_store": measure_object_store(corpus),
            "load_average": harness.load_average(),
            "cpus": harness.usable_cpus(),
            **harness.versions("numpy", "pyarrow", "torch", "torch-geometric", "s3fs", "moto"),
        }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    ratios = {
        "two ranks / two independent processes": result["ranks"]["ratio_to_independent"],
        "object store / local disk": result["object_store"]["ratio"],
    }
    seconds = {"resume seconds": result["resume"]["seconds"]}
    harness.require([*harness.at_least(ratios, BARS), *harness.at_most(seconds, LIMITS)])


def read_as_rank(corpus: str, rank: int, size: int, gate: Path) -> None:
    """Read epochs when the gate opens and print the times of start and end.

    Size 0 is one process that may use all cores, size -2 are two that share nothing.
    """
    if size:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    shared = {"rank": rank, "world_size": size} if size > 1 else {"rank": 0, "world_size": 1}
    loader = open_corpus(corpus).loader(BATCH, shuffle=True, **shared)
    for _batch in loader:  # imports, page cache
        pass
    gate.with_suffix(f".{rank}").touch()
    while not gate.exists():
        time.sleep(0.001)
    started, graphs = time.time(), 0
    for _ in range(EPOCHS):
        graphs += sum(batch.num_graphs for batch in loader)
    print(json.dumps({"start": started, "stop": time.time(), "graphs": graphs}))


def measure_ranks(corpus: Corpus, folder: Path) -> harness.Result:
    """Return graphs per second of one process and of two."""
    corpus.hot(build=True)
    rates: dict[int, list[float]] = {0: [], 1: [], 2: [], -2: []}
    for number in range(ROUNDS):
        for size in rates:
            rates[size].append(rate_of_ranks(corpus, size, folder / f"gate-{number}-{size}"))
    names = ("one, both cores", "one", "two", "two, independent")
    return {
        "graphs_per_second": {
            name: round(statistics.median(values))
            for name, values in zip(names, rates.values(), strict=True)
        },
        "ratio": round(statistics.median(map(truediv, rates[2], rates[1])), 2),
        "ratio_to_independent": round(statistics.median(map(truediv, rates[2], rates[-2])), 2),
    }


def rate_of_ranks(corpus: Corpus, size: int, gate: Path) -> float:
    """Return graphs per second of all ranks together."""
    path = str(corpus.artifact.location.local)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", path, str(rank), str(size), str(gate)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(max(abs(size), 1))
    ]
    while not all(gate.with_suffix(f".{rank}").exists() for rank in range(len(ranks))):
        if any(process.poll() for process in ranks):
            raise SystemExit("a rank failed")
        time.sleep(0.01)
    gate.touch()
    runs = [json.loads(process.communicate()[0]) for process in ranks]
    graphs = sum(run["graphs"] for run in runs)
    return graphs / (max(run["stop"] for run in runs) - min(run["start"] for run in runs))


def measure_resume(folder: Path) -> harness.Result:
    """Return the seconds until the first batch after a state in the middle of an epoch."""
    corpus = corpora.publish(folder / "large", RESUMED_GRAPHS, make=make_small_graphs)
    loader = corpus.loader(BATCH, shuffle=True)
    next(iter(loader))
    state = {**loader.state_dict(), "batches": len(loader) // 2}

    def resume() -> object:
        opened = open_corpus(corpus.artifact.location.local).loader(BATCH, shuffle=True)
        opened.load_state_dict(state)
        return next(iter(opened))

    seconds = harness.interleave({"resume": resume}, ROUNDS)["resume"]
    return {"graphs": RESUMED_GRAPHS, "seconds": round(statistics.median(seconds), 3)}


def make_small_graphs(shard: Shard) -> GraphTable:
    """Return paths of four nodes."""
    graphs = shard.stop - shard.start
    node_ptr, edge_ptr = pointers(np.full(graphs, 4)), pointers(np.full(graphs, 6))
    one = corpora.make_shard(Shard(shard.split, shard.number, 1, 0, 1)).graph
    src = np.tile(np.array([0, 1, 1, 2, 2, 3], np.int32), graphs)
    dst = np.tile(np.array([1, 0, 2, 1, 3, 2], np.int32), graphs)
    return GraphTable(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        graph={
            **{name: np.repeat(one[name], graphs, axis=0) for name in ("env_id", "domain_id",
                                                                       "y", "label")},
            "graph_id": np.arange(shard.start, shard.stop),
            "split": np.full(graphs, SPLITS.index(shard.split), np.int8),
            "origin": np.full(graphs, ORIGINS.index("source"), np.int8),
            **source_provenance(graphs),
        },
        node={"node_feat": np.ones((4 * graphs, corpora.FEATURES), np.float32)},
        edge={
            "edge_src": src,
            "edge_dst": dst,
            "edge_attr": np.ones((6 * graphs, corpora.EDGE_FEATURES), np.float32),
        },
    )  # fmt: skip


def measure_object_store(corpus: Corpus) -> harness.Result:
    """Return graphs per second of streamed epochs from a local S3 server and from files."""
    with s3_store() as url:
        push(corpus.artifact, Store.at(url))
        remote = open_corpus(corpus.key, store=url)

        def epoch(source: Corpus) -> None:
            for _batch in source.loader(BATCH, cache="never"):
                pass

        works = {"local": lambda: epoch(corpus), "remote": lambda: epoch(remote)}
        harness.interleave(works, 1)
        seconds = harness.interleave(works, ROUNDS)
    rates = {name: GRAPHS / statistics.median(values) for name, values in seconds.items()}
    ratios = [a / b for a, b in zip(seconds["local"], seconds["remote"], strict=True)]
    return {
        "graphs_per_second": {name: round(rate) for name, rate in rates.items()},
        "ratio": round(statistics.median(ratios), 2),
    }


@contextmanager
def s3_store() -> Iterator[str]:
    """Run an S3 server in another process and yield the URL of a bucket."""
    import boto3

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        boto3.client("s3").create_bucket(Bucket="bench")
        yield "s3://bench/store"
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
