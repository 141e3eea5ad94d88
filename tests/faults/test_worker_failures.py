"""Workers, schedulers and clients die: finished shards stay, and the end has the same bytes."""

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
from gsx.storage.corpora.verify_corpus import audit
from tests.faults.test_crash_recovery import finished, leftovers
from tests.support.cluster import (
    Cluster,
    end_family,
    environment,
    family,
    gone,
    log_of,
    made,
    prepared,
    run,
    shards_of,
    start,
    units,
    wait_for_units,
    workers_of,
)

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy
COUNT, SHARD = 2000, 50
KILLS = 24


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store with a corpus and a bridge model, their keys, and the digest of a calm run."""
    folder = tmp_path_factory.mktemp("source")
    keys = prepared(folder)
    calm = tmp_path_factory.mktemp("calm") / "store"
    shutil.copytree(folder, calm)
    return folder, keys, made(run(keys, calm, count=COUNT, shard=SHARD))["digest"]


@pytest.fixture
def store(source, tmp_path):
    shutil.copytree(source[0], tmp_path / "store")
    return tmp_path / "store"


def begin(source, store, *words):
    return start(source[1], store, *words, count=COUNT, shard=SHARD)


def finish(source, store, *words):
    """Run to the end and return what was said, after checking that it is what a calm run makes."""
    said = made(run(source[1], store, *words, count=COUNT, shard=SHARD))
    require_calm_end(source, store, said)
    return said


def require_calm_end(source, store, said):
    assert said["digest"] == source[2]
    assert audit(Store.at(store).resolve(said["key"]).place).problems == ()
    assert [path for path in leftovers(store) if ".runs" not in path.parts] == []


def require_kept(before, now):
    """What was finished before must be the same file now, not one like it."""
    assert {path: now[path] for path in before} == before


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_missed(source, store):
    process = begin(source, store, "--workers", 2)
    assert wait_for_units(store, 4, process)
    kept = finished(store)
    workers_of(process)[0].kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    said = json.loads(out)
    require_calm_end(source, store, said)
    require_kept(kept, published_of(store, said))
    assert [e["event"] for e in log_of(store, said["key"])].count("lost") <= 2


def test_a_client_that_is_killed_leaves_no_process_and_its_shards(source, store):
    process = begin(source, store, "--workers", 2)
    assert wait_for_units(store, 4, process)
    everyone = family(process)
    assert len(everyone) >= 3
    process.kill()
    process.communicate()
    assert gone(everyone)
    kept = finished(store)
    said = finish(source, store)
    require_kept(kept, published_of(store, said))
    again = shards_of(log_of(store, said["key"]), "kept")
    assert {path for path in kept if path.startswith("data/")} == set(again)


def published_of(store, said):
    """Return the inode of every file of the generated corpus."""
    root = Store.at(store).resolve(said["key"]).place.local
    return {
        path.relative_to(root).as_posix(): path.stat().st_ino
        for path in root.rglob("*")
        if path.is_file()
    }


def test_an_interrupted_client_ends_its_workers_and_says_how_to_go_on(source, store):
    process = begin(source, store, "--workers", 2)
    assert wait_for_units(store, 2, process)
    everyone = family(process)
    for one in everyone:  # as a terminal does
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        "Stopped. Finished shards are kept; run the same command to go on."
    )
    assert "Traceback" not in err
    assert gone(everyone)
    assert units(store) >= 2


def test_a_scheduler_that_is_killed_ends_the_run_and_the_next_goes_on(source, store, tmp_path):
    cluster = Cluster(tmp_path)
    try:
        process = begin(source, store, "--scheduler", cluster.address)
        assert wait_for_units(store, 4, process)
        cluster.scheduler.kill()
        _, err = process.communicate(timeout=600)
        assert process.returncode == 5, err
        assert f"lost the scheduler at {cluster.address}" in err
        assert "run the same command to go on" in err
        kept = finished(store)
    finally:
        cluster.close()
    said = finish(source, store)
    require_kept(kept, published_of(store, said))


POISON = """
import os
from gsx.stages.generate.splice import splicer
plain = splicer.Splicer.block
def block(self, number, count):
    if number == 7:
        raise ZeroDivisionError("a bug that only graphs of block 7 meet")
    return plain(self, number, count)
splicer.Splicer.block = block
"""


@pytest.mark.parametrize("words", [(), ("--workers", 2)])
def test_a_poison_shard_is_reported_once_and_stops_no_other(source, store, tmp_path, words):
    (tmp_path / "bug").mkdir()
    (tmp_path / "bug" / "sitecustomize.py").write_text(POISON)
    path = environment()["PYTHONPATH"]
    env = environment(PYTHONPATH=f"{tmp_path / 'bug'}:{path}")
    failed = run(source[1], store, *words, count=COUNT, shard=SHARD, env=env)
    assert failed.returncode == 5, failed.stderr
    assert failed.stdout == ""
    lines = [line for line in failed.stderr.splitlines() if not line.startswith("dashboard")]
    assert lines[:2] == [
        "Error: 1 of 40 shards could not be made; finished shards are kept, nothing was published.",
        "  data/train-00008-of-00041.parquet (option 3, graphs 350 to 399, seed 0): "
        "ZeroDivisionError: a bug that only graphs of block 7 meet",
    ]
    (log,) = [line.split()[0] for line in lines[2:] if ".jsonl" in line]
    events = [json.loads(line) for line in Path(log).read_text().splitlines()]
    (told,) = [e for e in events if e.get("state") == "failed"]
    assert "in block\n" in told["failure"]["trace"]
    kept = finished(store)
    said = finish(source, store)
    require_kept(kept, published_of(store, said))
    events = log_of(store, said["key"])
    assert shards_of(events, "made") == ["data/train-00008-of-00041.parquet"]
    assert len(shards_of(events, "kept")) == 39


def test_a_worker_without_enough_memory_names_shard_and_limit(source, store):
    failed = run(
        source[1], store, "--workers", 1, "--memory-limit", "300MB", count=COUNT, shard=SHARD
    )
    assert failed.returncode == 5, failed.stderr
    assert "data/train-00001-of-00041.parquet (option 3, graphs 0 to 49, seed 0): " in failed.stderr
    assert (
        "its worker outgrew its memory limit of 286.10 MiB. Give more with --memory-limit, or make "
        "smaller shards with --shard-graphs."
    ) in failed.stderr


class Storm:
    """Kills workers, schedulers and clients at random moments, and checks the store after each."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.dice = random.Random(20261116)
        self.kills = {"worker": 0, "scheduler": 0, "client": 0}
        self.series = 0
        self.last = ""
        """Who was killed last."""

    def build(self):
        """Build one corpus through kills until a run survives."""
        store = self.folder / f"store-{self.series}"
        shutil.copytree(self.source[0], store)
        kept = {}
        while True:
            self.series += 1
            (self.folder / f"cluster-{self.series}").mkdir()
            cluster = Cluster(self.folder / f"cluster-{self.series}")
            try:
                process = begin(self.source, store, "--scheduler", cluster.address)
                out, err = self.strike(process, cluster, store)
            finally:
                cluster.close()
            if process.returncode == 0:
                said = json.loads(out)
                require_calm_end(self.source, store, said)
                require_kept(kept, published_of(store, said))
                return
            if process.returncode == 2:  # on a busy machine it may not even have met the scheduler
                assert self.last == "scheduler", err
                assert f"no Dask scheduler at {cluster.address}" in err
            else:
                assert process.returncode in (5, -signal.SIGKILL), err
            now = finished(store)
            require_kept(kept, now)
            kept = now

    def strike(self, process, cluster, store):
        """Kill something now and then until the client ends."""
        while process.poll() is None:
            wait_for_units(store, units(store) + self.dice.randrange(1, 14), process, seconds=20)
            time.sleep(self.dice.uniform(0, 0.05))
            victim = self.dice.choices(("worker", "scheduler", "client"), (6, 1, 2))[0]
            if process.poll() is not None:
                break
            self.kills[victim] += 1
            self.last = victim
            if victim == "worker":
                nanny = self.dice.choice([w for w in cluster.workers if w.poll() is None])
                workers = family(nanny)[1:]
                if workers and self.dice.random() < 0.7:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        self.dice.choice(workers).kill()
                else:
                    end_family(nanny)
                    cluster.workers.append(cluster.add_worker())
            else:
                (cluster.scheduler if victim == "scheduler" else process).kill()
        return process.communicate(timeout=600)


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_dozens_of_kills_of_anyone_lose_nothing(source, tmp_path):
    storm = Storm(source, tmp_path)
    while sum(storm.kills.values()) < KILLS:
        storm.build()
    assert min(storm.kills.values()) > 0, storm.kills
