"""Executors and clusters of real processes, and a small generation to run on them."""

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

from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.storage.artifacts.store import Store
from tests.support.drafts import num_finished_units
from tests.support.run_stages import run_recipe

ROOT = Path(__file__).parents[2]
RECIPE = '[prepare]\ndataset = "motif-size"\nnum_graphs = 200\n[bridge]\nepochs = 1\n'
NUM_GRAPHS, SHARD_GRAPHS = 400, 50
NUM_SHARDS = NUM_GRAPHS // SHARD_GRAPHS


def environment(**variables):
    """Return the environment of other processes; they import the code of this repository."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}


def prepare_inputs(folder):
    """Build a small corpus and a bridge model, and return their keys by stage."""
    artifacts = run_recipe(folder, RECIPE)
    return {stage: artifact.key for stage, artifact in artifacts.items()}


def generate_command(
    keys, store, *words, seed=0, count=NUM_GRAPHS, shard=SHARD_GRAPHS, source=None
):
    """Return the command line that generates graphs from the inputs with these keys."""
    return [
        sys.executable, "-m", "gsx", "generate", source or keys["prepare"], "--options", "001",
        "--bridge", keys["bridge"], "--count", str(count), "--shard-graphs", str(shard),
        "--seed", str(seed), "--store", str(store), "--json", *map(str, words),
    ]  # fmt: skip


def start_generate(*words, env=None, **options):
    """Start the command in another process."""
    return subprocess.Popen(
        generate_command(*words, **options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env or environment(),
    )


def run_generate(*words, env=None, **options):
    """Run the command in another process until it ends."""
    return subprocess.run(
        generate_command(*words, **options),
        capture_output=True,
        text=True,
        check=False,
        env=env or environment(),
        timeout=800,
    )


def json_output(completed):
    """Return the JSON output of a successful command."""
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


def generate_in_process(store, artifacts, options, open_executor=None, *, force=False):
    """Run the stage `generate` on artifacts by stage, in this process or with an executor."""
    stage, config = stage_named("generate"), parse_config("generate", options, "test")
    plan = (Step(stage, config, stage.inputs_of(config)),)
    steps = run_plan(
        plan, Store.at(store), artifacts=artifacts, open_executor=open_executor, force=force
    )
    return next(built for _, built in steps).artifact


def read_event_log(store, key):
    """Return the events of the last run that built ``key``."""
    path = max((Path(store) / ".runs").glob(f"*-{key[:12]}-*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def shards_in_state(events, *states):
    """Return the names of the shards that ended in one of the states."""
    return [e["shard"] for e in events if e["event"] == "shard" and e["state"] in states]


def file_hashes(store, key):
    """Return the hash of every file of an artifact."""
    manifest = Store.at(store).resolve(key).manifest
    return {path: entry.sha256 for path, entry in manifest.files.items()}


class Cluster:
    """A Dask scheduler and workers, each in its own process as on a real cluster."""

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
            kill_process_tree(process)


def process_tree(process):
    """Return a process and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    return []


def kill_process_tree(process):
    for member in process_tree(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    process.wait()


def worker_processes(process):
    """Return the worker processes of a command with `--workers`."""
    workers = []
    for member in process_tree(process)[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(member.cmdline()):
                workers.append(member)
    return workers


def have_ended(processes, seconds=60):
    """Return whether all processes end within some seconds."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not [member for member in alive if member.status() != psutil.STATUS_ZOMBIE]


def wait_for_units(store, count, process, seconds=600):
    """Wait until ``count`` units are finished; return False if the process ends before."""
    end = time.monotonic() + seconds
    while num_finished_units(store) < count and time.monotonic() < end:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return num_finished_units(store) >= count
