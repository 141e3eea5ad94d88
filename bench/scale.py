"""Generation on workers: two beside one, scheduling, memory, tiny tasks, hashes, a long manifest.

``python bench/scale.py ratio overhead memory tasks hashes manifest`` measures what is named, all of
it by default, and writes bench/results/scale.json; parts that are not named stay as they were. The
source corpus and the bridge model are made once in a store of its own (``--store``), and a corpus
that was interrupted goes on, so a long measurement may be stopped and started again.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "scale.json"
SHARD = 25_000
FACTS = {"groups": [{"split": "train", "env_id": 3, "count": SHARD, "sizes": [1000] * 24}]}
NEED_CORPUS = {"ratio", "overhead", "memory"}
PARTS = ("ratio", "overhead", "memory", "tasks", "hashes", "manifest")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    parser.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "gsx-scale")
    parser.add_argument("--graphs", type=int, default=200_000, help="of one run of `ratio`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8, help="of `overhead`")
    parser.add_argument("--largest", type=int, default=1_000_000, help="graphs of `memory`")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--hashes", type=int, default=100_000_000, help="of the most graphs")
    parser.add_argument("--files", type=int, default=80_000, help="of `manifest`")
    given = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    keys = prepared(given.store) if NEED_CORPUS & set(given.parts) else None
    for part in given.parts:
        result[part] = {
            "command": " ".join(["python", "bench/scale.py", *sys.argv[1:]]),
            **measure(part, given, keys),
            "load": [round(each, 1) for each in os.getloadavg()],
            "processors": len(os.sched_getaffinity(0)),
        }
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({part: result[part]}), flush=True)


def measure(part, given, keys):
    if part == "ratio":
        return ratio(given.store, keys, given.graphs, given.rounds)
    if part == "overhead":
        return overhead(given.store, keys, given.shards)
    if part == "memory":
        return memory(given.store, keys, given.largest)
    if part == "tasks":
        return tasks(given.tasks)
    return hashes(given.hashes) if part == "hashes" else manifest(given.files)


def prepared(store):
    corpus = gsx(store, "prepare", "motif-size")["key"]
    bridge = gsx(store, "pretrain", "bridge", corpus, "--epochs", 2)["key"]
    return corpus, bridge


def gsx(store, *words):
    command = [sys.executable, "-m", "gsx", *map(str, words), "--store", str(store), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def generate(store, keys, count, *words, seed=0):
    """Generate, and return the key, wall and CPU seconds, and the log of the run."""
    began, used = time.perf_counter(), children()
    made = gsx(
        store, "generate", keys[0], "--bridge", keys[1], "--options", "001", "--count", count,
        "--augmented-only", "--seed", seed, *words,
    )  # fmt: skip
    wall, cpu = time.perf_counter() - began, children() - used
    logs = sorted((store / ".runs").glob(f"*-{made['key'][:12]}-*.jsonl"))
    events = [json.loads(line) for path in logs for line in path.read_text().splitlines()]
    return made["key"], wall, cpu, [e for e in events if e["event"] == "shard"]


def children():
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def ratio(store, keys, graphs, rounds):
    """One worker and two, in turn; a new seed each time, so that nothing is found."""
    wall, cpu = {1: [], 2: []}, {1: [], 2: []}
    for number in range(rounds):
        for workers in wall:
            seed = time.time_ns() % 10**9
            key, seconds, used, _ = generate(
                store, keys, graphs, "--workers", workers, seed=seed + number
            )
            gsx(store, "gc", key, "--delete")
            wall[workers].append(round(seconds, 1))
            cpu[workers].append(round(used, 1))
    best, least = ({n: min(times) for n, times in each.items()} for each in (wall, cpu))
    return {
        "graphs": graphs,
        "shard_graphs": SHARD,
        "seconds": wall,
        "cpu_seconds": cpu,
        "ratio_of_best": round(best[1] / best[2], 2),
        "ratios": [round(a / b, 2) for a, b in zip(*wall.values(), strict=True)],
        "cpu_of_two_beside_one": round(least[2] / least[1], 3),
    }


def overhead(store, keys, number):
    """How much of the time between its first and last shard a worker waits for the next."""
    seed = time.time_ns() % 10**9
    key, _, _, shards = generate(store, keys, number * SHARD, "--workers", 1, seed=seed)
    gsx(store, "gc", key, "--delete")
    ends = [moment(e) for e in shards]
    busy = sum(e["seconds"] for e in shards[1:])
    return {
        "shards": len(shards),
        "shard_graphs": shards[0]["graphs"],
        "seconds_per_shard": round(busy / (len(shards) - 1), 2),
        "waiting": round(1 - busy / (ends[-1] - ends[0]), 4),
    }


def moment(event):
    from datetime import datetime

    return datetime.fromisoformat(event["time"]).timestamp()


def memory(store, keys, largest):
    """Peak memory of a worker after 100,000 graphs and after all; a stopped run goes on."""
    _, wall, _, shards = generate(store, keys, largest, "--workers", 2, seed=9)
    made = [e for e in shards if e["state"] == "made"]
    early = {}
    for event in made:
        seen = early.setdefault(event["worker"], [])
        seen.append((event["graphs"], event["peak_mib"]))
    first = [next(m for n, (_, m) in enumerate(seen) if n + 1 >= min(2, len(seen)))
             for seen in early.values()]  # fmt: skip
    return {
        "graphs": sum(e["graphs"] for e in made),
        "bytes_per_graph": round(sum(e["bytes"] for e in made) / sum(e["graphs"] for e in made)),
        "peak_mib_at_100000": max(first),
        "peak_mib": max(e["peak_mib"] for e in made),
        "seconds_of_last_run": round(wall, 1),
    }


def tasks(count):
    """Hand ``count`` shards of no work to a hundred workers, through the same code as real ones."""
    import distributed

    from gsx.pipeline.crew import DaskCrew
    from gsx.pipeline.shards import SHARDS, Job, Task
    from gsx.storage.runlog import RunLog

    shards = [Task(f"data/{n}", "") for n in range(count)]
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
        crew = DaskCrew(client, job, RunLog(folder, ""), set(), print)
        began, used = time.perf_counter(), time.process_time()
        halves, seen = [], set()
        for result in crew.each(nothing, shards, SHARDS):
            assert result.failure is None
            seen.add(result.number)
            if len(seen) in (count // 2, count):
                halves.append(time.perf_counter())
        seconds = time.perf_counter() - began
    assert seen == set(range(count))
    return {
        "tasks": count,
        "workers": 100,
        "tasks_per_s": round(count / seconds),
        "second_half_beside_first": round((halves[1] - halves[0]) / (halves[0] - began), 2),
        "client_and_scheduler_cpu_ms_per_task": round(
            (time.process_time() - used) / count * 1000, 2
        ),
        "client_and_scheduler_peak_mib": round(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        ),
    }


def nothing(job, number, data, scratch):
    from gsx.pipeline.shards import Result

    return Result(number=number)


def hashes(most):
    """Count distinct hashes of shards, a tenth of them repeated: as gsx does, and all at once."""
    found = {}
    for do, number in ((at_once, most // 10), (in_runs, most // 10), (in_runs, most)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row = pool.submit(do, number).result()
        assert row["distinct"] == number * 9 // 10
        found[f"{do.__name__}_of_{number}"] = row
    return {"shard_graphs": SHARD, **found}


def in_runs(number):
    from gsx.storage.distinct import count_distinct

    with tempfile.TemporaryDirectory() as folder:
        return counted(lambda: count_distinct(drawn(number), Path(folder)))


def at_once(number):
    import numpy as np

    return counted(lambda: len(np.unique(np.concatenate(list(drawn(number))))))


def drawn(number):
    import numpy as np

    stream = np.random.default_rng(0)
    for _ in range(number // SHARD):
        fresh = stream.integers(2**64, size=SHARD * 9 // 10, dtype=np.uint64)
        yield np.concatenate([fresh, fresh[: SHARD - len(fresh)]])


def counted(count):
    began, before = time.process_time(), peak_mib()
    return {
        "distinct": count(),
        "cpu_seconds": round(time.process_time() - began, 1),
        "more_mib": round(peak_mib() - before),
    }


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def manifest(files):
    """Sum up a draft of so many files as after the last shard, then read what was published."""
    from gsx.storage.digest import sha256_bytes
    from gsx.storage.draft import Unit
    from gsx.storage.manifest import FileEntry
    from gsx.storage.place import Place
    from gsx.storage.publish import Identity, Outcome, build
    from gsx.storage.store import Store
    from gsx.storage.verify import quick_problems, read_manifest

    seconds = {}

    def timed(name, do):
        began = time.process_time()
        found = do()
        seconds[name] = round(time.process_time() - began, 2)
        return found

    def record(draft):
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
                facts = FACTS if rows else {}
                draft.record(Unit(name=name, files={name: entry}, facts=facts))

    def produce(draft):
        timed("records", lambda: record(draft))
        seconds["publish"] = time.process_time()
        return Outcome(counts={"train": files // 2 * SHARD})

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where flushing costs nothing
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        identity = Identity(kind="corpus", stage="bench", stage_version=1, config={})
        place = build(Store.at(folder), identity, produce).artifact.place
        seconds["publish"] = round(time.process_time() - seconds["publish"], 2)
        found = timed("read", lambda: read_manifest(Place.at(place.url)))
        assert timed("sizes", lambda: quick_problems(place, found)) == []
        size = (Path(place.root) / "manifest.json").stat().st_size
    return {
        "files": files,
        "bytes": size,
        "bytes_per_file": round(size / files, 1),
        "cpu_seconds": seconds,
        "peak_mib": round(peak_mib()),
    }


if __name__ == "__main__":
    main()
