"""Workers, schedulers and clients die: finished shards are kept, and the result is the same."""

import contextlib
import json
import random
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest

from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.cluster import (
    Cluster,
    environment,
    have_ended,
    json_output,
    kill_process_tree,
    prepare_inputs,
    process_tree,
    read_event_log,
    run_generate,
    shards_in_state,
    start_generate,
    wait_for_units,
    worker_processes,
)
from tests.support.drafts import finished_files, leftover_files, num_finished_units

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy
NUM_GRAPHS, SHARD_GRAPHS = 2000, 50
NUM_KILLS = 24


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store with a corpus and a bridge model, their keys, and the digest of the result."""
    folder = tmp_path_factory.mktemp("source")
    keys = prepare_inputs(folder)
    reference = tmp_path_factory.mktemp("reference") / "store"
    shutil.copytree(folder, reference)
    output = json_output(run_generate(keys, reference, count=NUM_GRAPHS, shard=SHARD_GRAPHS))
    return folder, keys, output["digest"]


@pytest.fixture
def store(source, tmp_path):
    shutil.copytree(source[0], tmp_path / "store")
    return tmp_path / "store"


def start(source, store, *words):
    return start_generate(source[1], store, *words, count=NUM_GRAPHS, shard=SHARD_GRAPHS)


def resume(source, store, *words):
    """Run to the end, check the result and return the JSON output."""
    completed = run_generate(source[1], store, *words, count=NUM_GRAPHS, shard=SHARD_GRAPHS)
    output = json_output(completed)
    require_reference_result(source, store, output)
    return output


def require_reference_result(source, store, output):
    assert output["digest"] == source[2]
    assert verify_artifact(Store.at(store).resolve(output["key"]).location).problems == ()
    assert [path for path in leftover_files(store) if ".runs" not in path.parts] == []


def require_same_inodes(before, after):
    """Check that finished files are still the same files, not equal copies."""
    assert {path: after[path] for path in before} == before


def generated_files(store, output):
    """Return path → inode of every file of the generated corpus."""
    root = Store.at(store).resolve(output["key"]).location.local
    return {
        path.relative_to(root).as_posix(): path.stat().st_ino
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_killed_worker_is_replaced(source, store):
    process = start(source, store, "--workers", 2)
    assert wait_for_units(store, 4, process)
    kept = finished_files(store)
    worker_processes(process)[0].kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    output = json.loads(out)
    require_reference_result(source, store, output)
    require_same_inodes(kept, generated_files(store, output))
    events = read_event_log(store, output["key"])
    assert [e["event"] for e in events].count("lost") <= 2


def test_a_killed_client_leaves_no_processes_and_keeps_its_shards(source, store):
    process = start(source, store, "--workers", 2)
    assert wait_for_units(store, 4, process)
    members = process_tree(process)
    assert len(members) >= 3
    process.kill()
    process.communicate()
    assert have_ended(members)
    kept = finished_files(store)
    output = resume(source, store)
    require_same_inodes(kept, generated_files(store, output))
    reused = shards_in_state(read_event_log(store, output["key"]), "kept")
    assert {path for path in kept if path.startswith("data/")} == set(reused)


def test_an_interrupted_client_ends_its_workers_and_explains_how_to_resume(source, store):
    process = start(source, store, "--workers", 2)
    assert wait_for_units(store, 2, process)
    members = process_tree(process)
    for member in members:  # as a terminal does
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        "Stopped. Finished shards and epochs are kept; run the same command to resume."
    )
    assert "Traceback" not in err
    assert have_ended(members)
    assert num_finished_units(store) >= 2


def test_a_killed_scheduler_ends_the_run_and_the_next_run_resumes(source, store, tmp_path):
    cluster = Cluster(tmp_path)
    try:
        process = start(source, store, "--scheduler", cluster.address)
        assert wait_for_units(store, 4, process)
        cluster.scheduler.kill()
        _, err = process.communicate(timeout=600)
        assert process.returncode == 5, err
        assert f"lost the connection to the scheduler at {cluster.address}" in err
        assert "run the same command to resume" in err
        kept = finished_files(store)
    finally:
        cluster.close()
    output = resume(source, store)
    require_same_inodes(kept, generated_files(store, output))


BUG = """
import os
from gsx.stages.generate.splice import splicer
original = splicer.Splicer.block
def block(self, number, count):
    if number == 7:
        raise ZeroDivisionError("a bug that only block 7 has")
    return original(self, number, count)
splicer.Splicer.block = block
"""


@pytest.mark.parametrize("words", [(), ("--workers", 2)])
def test_a_failing_shard_is_reported_once_and_does_not_stop_others(source, store, tmp_path, words):
    (tmp_path / "bug").mkdir()
    (tmp_path / "bug" / "sitecustomize.py").write_text(BUG)
    path = environment()["PYTHONPATH"]
    env = environment(PYTHONPATH=f"{tmp_path / 'bug'}:{path}")
    failed = run_generate(source[1], store, *words, count=NUM_GRAPHS, shard=SHARD_GRAPHS, env=env)
    assert failed.returncode == 5, failed.stderr
    assert failed.stdout == ""
    lines = [line for line in failed.stderr.splitlines() if not line.startswith("dashboard")]
    assert lines[:2] == [
        "Error: 1 of 40 shards could not be built; finished shards are kept, nothing was "
        "published.",
        "  data/train-00008-of-00041.parquet (option 3, graphs 350 to 399, seed 0): "
        "ZeroDivisionError: a bug that only block 7 has",
    ]
    (log,) = [line.split()[1] for line in lines[2:] if ".jsonl" in line]
    events = [json.loads(line) for line in Path(log).read_text().splitlines()]
    (failure,) = [e["failure"] for e in events if e.get("state") == "failed"]
    assert "in block\n" in failure["trace"]
    kept = finished_files(store)
    output = resume(source, store)
    require_same_inodes(kept, generated_files(store, output))
    events = read_event_log(store, output["key"])
    assert shards_in_state(events, "made") == ["data/train-00008-of-00041.parquet"]
    assert len(shards_in_state(events, "kept")) == 39


def test_a_worker_without_enough_memory_names_shard_and_limit(source, store):
    failed = run_generate(
        source[1], store, "--workers", 1, "--memory-limit", "300MB",
        count=NUM_GRAPHS, shard=SHARD_GRAPHS,
    )  # fmt: skip
    assert failed.returncode == 5, failed.stderr
    assert "data/train-00001-of-00041.parquet (option 3, graphs 0 to 49, seed 0): " in failed.stderr
    assert (
        "its worker exceeded its memory limit of 286.10 MiB. Raise --memory-limit, or make smaller "
        "shards with --shard-graphs."
    ) in failed.stderr


class RandomKills:
    """Kills workers, schedulers and clients at random times, and checks the store after each."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.random = random.Random(20261116)
        self.kills = {"worker": 0, "scheduler": 0, "client": 0}
        self.num_runs = 0
        self.last_killed = ""

    def build(self):
        """Run until a run survives, and check its corpus."""
        store = self.folder / f"store-{self.num_runs}"
        shutil.copytree(self.source[0], store)
        kept = {}
        while True:
            self.num_runs += 1
            (self.folder / f"cluster-{self.num_runs}").mkdir()
            cluster = Cluster(self.folder / f"cluster-{self.num_runs}")
            try:
                process = start(self.source, store, "--scheduler", cluster.address)
                out, err = self.kill_until_end(process, cluster, store)
            finally:
                cluster.close()
            if process.returncode == 0:
                output = json.loads(out)
                require_reference_result(self.source, store, output)
                require_same_inodes(kept, generated_files(store, output))
                return
            if process.returncode == 2:  # on a busy machine it may not have connected yet
                assert self.last_killed == "scheduler", err
                assert f"no Dask scheduler at {cluster.address}" in err
            else:
                assert process.returncode in (5, -signal.SIGKILL), err
            finished = finished_files(store)
            require_same_inodes(kept, finished)
            kept = finished

    def kill_until_end(self, process, cluster, store):
        """Kill something from time to time until the client ends."""
        while process.poll() is None:
            goal = num_finished_units(store) + self.random.randrange(1, 14)
            wait_for_units(store, goal, process, seconds=20)
            time.sleep(self.random.uniform(0, 0.05))
            victim = self.random.choices(("worker", "scheduler", "client"), (6, 1, 2))[0]
            if process.poll() is not None:
                break
            self.kills[victim] += 1
            self.last_killed = victim
            if victim == "worker":
                nanny = self.random.choice([w for w in cluster.workers if w.poll() is None])
                workers = process_tree(nanny)[1:]
                if workers and self.random.random() < 0.7:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        self.random.choice(workers).kill()
                else:
                    kill_process_tree(nanny)
                    cluster.workers.append(cluster.add_worker())
            else:
                (cluster.scheduler if victim == "scheduler" else process).kill()
        return process.communicate(timeout=600)


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_dozens_of_random_kills_lose_nothing(source, tmp_path):
    random_kills = RandomKills(source, tmp_path)
    while sum(random_kills.kills.values()) < NUM_KILLS:
        random_kills.build()
    assert min(random_kills.kills.values()) > 0, random_kills.kills


def test_a_terminated_client_ends_its_workers_without_warnings(source, store):
    process = start(source, store, "--workers", 2)
    assert wait_for_units(store, num_finished_units(store) + 2, process)
    workers = worker_processes(process)
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert err == ""
    assert have_ended(workers)
    resume(source, store)
