"""Measure generation on Dask workers: ``python bench/scale.py``.

``python bench/scale.py SECTION ...`` measures some sections and keeps the results of the others.
The source corpus and the bridge model are kept in a separate store (``--store``), and an
interrupted generation resumes, so a long measurement may be stopped and started again.

ratio: two workers compared with one.  overhead: the share of time that a worker waits between
shards.  memory: peak memory of a worker after 100,000 and after 1,000,000 graphs.  tasks: tasks per
second without work.  hashes: counting distinct hashes.  manifest: a manifest of 80,000 files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from lib import harness

NAME = "scale"
SHARD = 25_000
SHARD_STATISTICS = {
    "groups": [{"split": "train", "env_id": 3, "count": SHARD, "sizes": [1000] * 24}]
}
NEED_CORPUS = {"ratio", "overhead", "memory"}
SECTIONS = ("ratio", "overhead", "memory", "tasks", "hashes", "manifest")

Keys = tuple[str, str]
"""Keys of the source corpus and of the bridge model."""
Event = dict[str, Any]
T = TypeVar("T")


def main(arguments: list[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else arguments
    parser = harness.argument_parser(__doc__)
    harness.add_sections(parser, SECTIONS)
    parser.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "gsx-scale")
    parser.add_argument("--graphs", type=int, default=200_000, help="of one run of `ratio`")
    parser.add_argument("--rounds", type=int, default=3, help="of `ratio`")
    parser.add_argument("--shards", type=int, default=8, help="of `overhead`")
    parser.add_argument("--largest", type=int, default=1_000_000, help="graphs of `memory`")
    parser.add_argument("--tasks", type=int, default=100_000, help="of `tasks`")
    parser.add_argument("--hashes", type=int, default=100_000_000, help="of `hashes`")
    parser.add_argument("--files", type=int, default=80_000, help="of `manifest`")
    options = parser.parse_args(words)
    result = harness.read_result(NAME)
    keys = prepare(options.store) if NEED_CORPUS & set(options.sections) else ("", "")
    for section in options.sections:
        result[section] = {
            "command": harness.command_line(NAME, *words),
            **measure(section, options, keys),
            "load": harness.load_average(),
            "processors": harness.usable_cpus(),
        }
        harness.write_result(NAME, result, dry_run=options.dry_run)
        print(json.dumps({section: result[section]}), flush=True)


def measure(section: str, options: argparse.Namespace, keys: Keys) -> harness.Result:
    if section == "ratio":
        return measure_ratio(options.store, keys, options.graphs, options.rounds)
    if section == "overhead":
        return measure_overhead(options.store, keys, options.shards)
    if section == "memory":
        return measure_memory(options.store, keys, options.largest)
    if section == "tasks":
        return measure_tasks(options.tasks)
    if section == "hashes":
        return measure_hashes(options.hashes)
    return measure_manifest(options.files)


def gsx(store: Path, *words: object) -> Any:
    return harness.gsx_command(*words, "--store", store)


def prepare(store: Path) -> Keys:
    """Return the keys of the source corpus and of the bridge model; make those that are missing."""
    corpus = gsx(store, "prepare", "motif-size")["key"]
    bridge = gsx(store, "pretrain", "bridge", corpus, "--epochs", 2)["key"]
    return corpus, bridge


def generate(
    store: Path, keys: Keys, count: int, *words: object, seed: int
) -> tuple[str, float, float]:
    """Generate a corpus; return its key, wall seconds and CPU seconds."""
    corpus, bridge = keys
    started, cpu = time.perf_counter(), children_seconds()
    key = gsx(
        store, "generate", corpus, "--bridge", bridge, "--options", "001", "--count", count,
        "--augmented-only", "--seed", seed, *words,
    )["key"]  # fmt: skip
    return key, time.perf_counter() - started, children_seconds() - cpu


def delete(store: Path, key: str) -> None:
    gsx(store, "gc", key, "--delete")


def event_logs(store: Path, key: str) -> list[Path]:
    """Return the event logs of all runs that worked on an artifact, oldest first."""
    return sorted((store / ".runs").glob(f"*-{key[:12]}-*.jsonl"))


def shard_events(store: Path, key: str) -> list[Event]:
    """Return the events of shards, from all runs that worked on an artifact."""
    lines = [line for path in event_logs(store, key) for line in path.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["event"] == "shard"]


def new_seed() -> int:
    """Return a seed that no earlier run used, so that no artifact is reused."""
    return time.time_ns() % 10**9


def children_seconds() -> float:
    """Return the CPU seconds of finished child processes so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_ratio(store: Path, keys: Keys, graphs: int, rounds: int) -> harness.Result:
    """Compare one worker with two, in turn."""
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for workers in wall:
            key, seconds, cpu_seconds = generate(
                store, keys, graphs, "--workers", workers, seed=new_seed() + number
            )
            delete(store, key)
            wall[workers].append(round(seconds, 1))
            cpu[workers].append(round(cpu_seconds, 1))
    return {
        "graphs": graphs,
        "shard_graphs": SHARD,
        "seconds": wall,
        "cpu_seconds": cpu,
        "ratio_of_best": round(min(wall[1]) / min(wall[2]), 2),
        "ratios": [round(one / two, 2) for one, two in zip(wall[1], wall[2], strict=True)],
        "cpu_of_two_beside_one": round(min(cpu[2]) / min(cpu[1]), 3),
    }


def measure_overhead(store: Path, keys: Keys, shards: int) -> harness.Result:
    """Return the share of time, between its first and its last shard, that a worker waits."""
    key, _, _ = generate(store, keys, shards * SHARD, "--workers", 1, seed=new_seed())
    events = shard_events(store, key)
    delete(store, key)
    ends = [datetime.fromisoformat(event["time"]).timestamp() for event in events]
    busy = sum(event["seconds"] for event in events[1:])
    return {
        "shards": len(events),
        "shard_graphs": events[0]["graphs"],
        "seconds_per_shard": round(busy / (len(events) - 1), 2),
        "waiting": round(1 - busy / (ends[-1] - ends[0]), 4),
    }


def measure_memory(store: Path, keys: Keys, largest: int) -> harness.Result:
    """Return the peak memory of workers after about 100,000 graphs and at the end.

    The seed is fixed, so an interrupted run resumes. A finished corpus and its logs are removed:
    the next measurement must not read them.
    """
    key, wall, _ = generate(store, keys, largest, "--workers", 2, seed=9)
    written = [event for event in shard_events(store, key) if event["state"] == "made"]
    peaks_of_worker: dict[str, list[float]] = {}
    for event in written:
        peaks_of_worker.setdefault(event["worker"], []).append(event["peak_mib"])
    # The second shard of each of two workers is about the 100,000th graph.
    early = [peaks[min(2, len(peaks)) - 1] for peaks in peaks_of_worker.values()]
    graphs = sum(event["graphs"] for event in written)
    result = {
        "graphs": graphs,
        "bytes_per_graph": round(sum(event["bytes"] for event in written) / graphs),
        "peak_mib_at_100000": max(early),
        "peak_mib": max(event["peak_mib"] for event in written),
        "seconds_of_last_run": round(wall, 1),
    }
    delete(store, key)
    for path in event_logs(store, key):
        path.unlink()
    return result


def measure_tasks(count: int) -> harness.Result:
    """Run ``count`` empty shards on a hundred workers, through the code that runs real shards."""
    import distributed

    from gsx.pipeline.distributed.dask_executor import DaskExecutor
    from gsx.pipeline.distributed.tasks import SHARDS, Job, Task
    from gsx.storage.artifacts.event_log import EventLog

    shards = [Task(f"data/{number}", "") for number in range(count)]
    job = Job(stage="", config={}, inputs={}, key="", source="", versions={}, draft="")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=50, processes=True, host="127.0.0.1",
                dashboard_address=None, local_directory=str(folder),
            )
        )  # fmt: skip
        client = stack.enter_context(distributed.Client(cluster))
        executor = DaskExecutor(client, job, EventLog(folder, ""), set(), print)
        started, cpu = time.perf_counter(), time.process_time()
        marks, finished = [], set()
        for result in executor.map_unordered(empty_task, shards, SHARDS):
            assert result.failure is None
            finished.add(result.number)
            if len(finished) in (count // 2, count):
                marks.append(time.perf_counter())
        seconds = time.perf_counter() - started
    assert finished == set(range(count))
    return {
        "tasks": count,
        "workers": 100,
        "tasks_per_s": round(count / seconds),
        "second_half_beside_first": round((marks[1] - marks[0]) / (marks[0] - started), 2),
        "client_and_scheduler_cpu_ms_per_task": round(
            (time.process_time() - cpu) / count * 1000, 2
        ),
        "client_and_scheduler_peak_mib": round(peak_mib()),
    }


def empty_task(job: bytes, number: int, data: bytes, scratch: str) -> Any:
    """Return the result of a shard without doing anything."""
    from gsx.pipeline.distributed.tasks import Result

    return Result(number=number)


def measure_hashes(largest: int) -> harness.Result:
    """Count distinct hashes of shards, a tenth of them repeated: as gsx does, and in memory."""
    results = {}
    runs: tuple[tuple[str, Callable[[int], harness.Result], int], ...] = (
        ("at_once", count_in_memory, largest // 10),
        ("in_runs", count_in_runs, largest // 10),
        ("in_runs", count_in_runs, largest),
    )
    for name, count, number in runs:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row = pool.submit(count, number).result()
        assert row["distinct"] == number * 9 // 10
        results[f"{name}_of_{number}"] = row
    return {"shard_graphs": SHARD, **results}


def count_in_runs(number: int) -> harness.Result:
    """Count in external memory, as gsx does."""
    from gsx.storage.corpora.count_distinct import count_distinct

    with tempfile.TemporaryDirectory() as folder:
        return measure_count(lambda: count_distinct(random_hashes(number), Path(folder)))


def count_in_memory(number: int) -> harness.Result:
    """Count with ``np.unique``."""
    return measure_count(lambda: len(np.unique(np.concatenate(list(random_hashes(number))))))


def random_hashes(number: int) -> Iterator[np.ndarray]:
    """Yield the hashes of shard after shard; a tenth of each shard is repeated."""
    generator = np.random.default_rng(0)
    for _ in range(number // SHARD):
        fresh = generator.integers(2**64, size=SHARD * 9 // 10, dtype=np.uint64)
        yield np.concatenate([fresh, fresh[: SHARD - len(fresh)]])


def measure_count(count: Callable[[], int]) -> harness.Result:
    """Return the count, its CPU seconds, and the growth of the peak memory of this process."""
    started, before = time.process_time(), peak_mib()
    return {
        "distinct": count(),
        "cpu_seconds": round(time.process_time() - started, 1),
        "more_mib": round(peak_mib() - before),
    }


def peak_mib() -> float:
    """Return the peak resident memory of this process."""
    from gsx.storage.artifacts.run_record import peak_memory_mib

    return peak_memory_mib()


def measure_manifest(files: int) -> harness.Result:
    """Publish a draft of ``files`` files as after the last shard, then read its manifest."""
    from gsx.storage.artifacts.digest import sha256_bytes
    from gsx.storage.artifacts.draft import Draft, Unit
    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.manifest import FileEntry
    from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
    from gsx.storage.artifacts.store import Store
    from gsx.storage.artifacts.verify_files import find_size_problems, read_manifest

    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        elapsed, value = harness.timed(work, time.process_time)
        seconds[name] = round(elapsed, 2)
        return value

    def record(draft: Draft) -> None:
        for number in range(files // 2):
            stem = f"train-{number:05}-of-{files // 2:05}"
            for name, rows in (
                (f"data/{stem}.parquet", SHARD),
                (f"hashes/{stem}.safetensors", None),
            ):
                path = draft.content / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(name.encode())
                entry = FileEntry(size=len(name), sha256=sha256_bytes(name.encode()), rows=rows)
                stats = SHARD_STATISTICS if rows else {}
                draft.record(Unit(name=name, files={name: entry}, stats=stats))

    def produce(draft: Draft) -> StageResult:
        timed("records", lambda: record(draft))
        seconds["publish"] = time.process_time()
        return StageResult(counts={"train": files // 2 * SHARD})

    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # flushing takes no time there
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        identity = Identity(kind="corpus", stage="bench", stage_version=1, config={})
        location = build_artifact(Store.at(folder), identity, produce).artifact.location
        seconds["publish"] = round(time.process_time() - seconds["publish"], 2)
        manifest = timed("read", lambda: read_manifest(Location.at(location.url)))
        assert timed("sizes", lambda: find_size_problems(location, manifest)) == []
        size = (Path(location.root) / "manifest.json").stat().st_size
    return {
        "files": files,
        "bytes": size,
        "bytes_per_file": round(size / files, 1),
        "cpu_seconds": seconds,
        "peak_mib": round(peak_mib()),
    }


if __name__ == "__main__":
    main()
