"""Clusters of real processes, and a small generation to run on them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from distributed import Client

from gsx.storage.artifacts.store import Store
from tests.support.run_stages import run_recipe

ROOT = Path(__file__).parents[2]
PREPARE = '[prepare]\ndataset = "motif-size"\nnum_graphs = 200\n[bridge]\nepochs = 1\n'
COUNT, SHARD = 400, 50
SHARDS = COUNT // SHARD


def environment(**more):
    """Return the environment of other processes: they find the code where this one does."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def prepared(folder):
    """Prepare a small corpus and a bridge model, and return their keys."""
    made = run_recipe(folder, PREPARE)
    return {stage: artifact.key for stage, artifact in made.items()}


def command(keys, store, *words, seed=0, count=COUNT, shard=SHARD, source=None):
    return [
        sys.executable, "-m", "gsx", "generate", source or keys["prepare"], "--options", "001",
        "--bridge", keys["bridge"], "--count", str(count), "--shard-graphs", str(shard),
        "--seed", str(seed), "--store", str(store), "--json", *map(str, words),
    ]  # fmt: skip


def start(*words, env=None, **options):
    return subprocess.Popen(
        command(*words, **options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env or environment(),
    )


def run(*words, env=None, **options):
    return subprocess.run(
        command(*words, **options),
        capture_output=True,
        text=True,
        check=False,
        env=env or environment(),
        timeout=800,
    )


def made(done):
    """Return what a command that ended well printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def log_of(store, key):
    """Return the events of the last run that made ``key``."""
    path = max((Path(store) / ".runs").glob(f"*-{key[:12]}-*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def shards_of(events, *states):
    return [e["shard"] for e in events if e["event"] == "shard" and e["state"] in states]


def files_of(store, key):
    """Return the hash of every file of an artifact that was made."""
    manifest = Store.at(store).resolve(key).manifest
    return {path: entry.sha256 for path, entry in manifest.files.items()}


class Cluster:
    """A scheduler and workers, each a process of its own as on a real cluster."""

    def __init__(self, folder, workers=2, env=None):
        self.folder, self.env = folder, env or environment()
        self.file = folder / "scheduler.json"
        self.processes = {}
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0",
            "--scheduler-file", self.file,
        )  # fmt: skip
        while not self.file.exists() or not self.file.read_text().strip():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        self.workers = [self.add_worker() for _ in range(workers)]
        with Client(self.address) as client:
            client.wait_for_workers(workers, timeout=600)

    def _start(self, *words):
        log = (self.folder / f"{len(self.processes)}-{words[0]}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, words)],
            stdout=log, stderr=log, env=self.env, cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        log.close()
        self.processes[process.pid] = process
        return process

    def add_worker(self):
        return self._start(
            "worker", self.address, "--nthreads", "1", "--no-dashboard",
            "--local-directory", self.folder / "scratch",
        )  # fmt: skip

    def close(self):
        for process in self.processes.values():
            end_family(process)


def family(process):
    """Return a process and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    return []


def end_family(process):
    for one in family(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)
    process.wait()


def workers_of(process):
    """Return the worker processes of a command with `--workers`."""
    found = []
    for one in family(process)[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
    return found


def gone(processes, seconds=60):
    """Say whether all processes end soon."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def units(store):
    """Return how many finished units the drafts of a store have, those of earlier runs too."""
    return sum(
        1 for name in ("progress", "earlier") for _ in Path(store).glob(f".drafts/*/{name}/*.json")
    )


def wait_for_units(store, count, process, seconds=600):
    """Wait until so many units are finished; False when the process ended before."""
    end = time.monotonic() + seconds
    while units(store) < count and time.monotonic() < end:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return units(store) >= count
