"""Kills, full disks, read-only stores and interrupts: nothing incomplete appears or is lost."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import gsx as package
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx, motif
from tests.support.drafts import (
    finished_files,
    leftover_files,
    num_finished_units,
    published_files,
)

NUM_GRAPHS, SHARD_GRAPHS = 1000, 150


def command(store, *words, graphs=NUM_GRAPHS, file_format="both"):
    return [
        sys.executable, "-m", "gsx", "prepare", "motif-size", "--num-graphs", str(graphs),
        "--shard-graphs", str(SHARD_GRAPHS), "--format", file_format, "--store", str(store),
        *map(str, words),
    ]  # fmt: skip


def start(*words, **options):
    return subprocess.Popen(
        command(*words, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(*words, **options):
    return subprocess.run(command(*words, **options), capture_output=True, text=True, check=False)


class RandomKills:
    """Starts builds, kills most of them, and checks the store after every kill."""

    def __init__(self):
        self.random = random.Random(20260718)
        self.kills = self.kills_during_build = self.reused = 0

    def kill(self, process, store):
        """Kill ``process`` at a random time: at its start, or after it finished a few units."""
        extra_units = self.random.randrange(6)
        goal = num_finished_units(store) + extra_units
        while process.poll() is None and num_finished_units(store) < goal:
            time.sleep(0.005)
        time.sleep(self.random.uniform(0, 0.1 if extra_units else 0.8))
        process.kill()
        return process.communicate()

    def build(self, store):
        """Build a corpus; kill runs until one survives, and return its JSON output."""
        kept = {}
        while True:
            process = start(store, "--json")
            out, err = self.kill(process, store)
            require_intact_artifacts(store)
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, err
                self.require_same_inodes(kept, published_files(store))
                return json.loads(out)
            self.kills += 1
            finished = finished_files(store)
            self.kills_during_build += len(finished) > len(kept)
            kept = self.require_same_inodes(kept, finished or published_files(store))

    def require_same_inodes(self, before, after):
        """Check that files finished before a kill are still the same files, not equal copies."""
        self.reused += len(before)
        assert {path: after[path] for path in before} == before
        return after


def require_intact_artifacts(store):
    artifact_store = Store.at(store)
    for location in artifact_store.all_locations():
        assert verify_artifact(location, store=artifact_store).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [10])
def test_kills_lose_nothing_and_publish_nothing_incomplete(fast_folder, kills):
    assert run(fast_folder / "reference").returncode == 0
    (reference,) = Store.at(fast_folder / "reference").artifacts()
    random_kills = RandomKills()
    num_stores = 0
    while random_kills.kills < kills:
        store = fast_folder / f"store-{num_stores}"
        assert random_kills.build(store)["digest"] == reference.manifest.digest
        assert leftover_files(store) == []
        num_stores += 1
    assert random_kills.kills_during_build >= kills // 6
    assert random_kills.reused > 3 * kills


@pytest.mark.slow
def test_a_full_disk_publishes_nothing_and_the_same_command_resumes(ram):
    folder, remount = ram
    remount("size=900k")
    store = folder / "store"
    failed = run(store, graphs=3000)
    assert failed.returncode == 3
    assert failed.stderr == (
        f"Error: no space left on {store}. Finished shards are kept; nothing was published.\n"
        "  Free some space (`gsx gc` lists what can be deleted), then run the command again.\n"
    )
    assert list(Store.at(store).entries()) == []
    kept = finished_files(store)
    assert len(kept) > 3
    remount("size=200m")
    completed = run(store, "--json", graphs=3000)
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    files = published_files(store)
    assert {path: files[path] for path in kept} == kept
    assert verify_artifact(Store.at(store).resolve(result["key"]).location).problems == ()
    assert leftover_files(store) == []


def test_a_full_disk_can_be_cleared_with_gc(ram):
    folder, remount = ram
    remount("size=300k")
    store = folder / "store"
    assert run(store, graphs=3000, file_format="parquet").returncode == 3
    assert shutil.disk_usage(folder).free < 50_000
    output = gsx("gc", "--delete", "--store", store)
    assert output.code == 0
    assert "1 item, " in output.out
    assert shutil.disk_usage(folder).free > 200_000


def test_a_read_only_store_can_be_read_but_not_written(ram, tmp_path, monkeypatch):
    folder, remount = ram
    store = Store.at(folder / "store")
    artifact = motif(store)
    remount("ro")
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "another-cache"))
    url = store.location.url
    key = artifact.key
    for words in (("ls",), ("show", key), ("verify", "--all"), ("lineage", key), ("gc",)):
        output = gsx(*words, "--store", url)
        assert (output.code, output.err) == (0, ""), words
    corpus = package.open(key, store=url)
    assert sum(batch.num_graphs for batch in corpus.loader(8, shuffle=True)) == 30
    reused = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", url, "--json")
    assert json.loads(reused.out)["reused"] is True
    failed = gsx("prepare", "motif-size", "--num-graphs", 40, "--store", url)
    assert failed.code == 3
    assert failed.err == (
        f"Error: cannot write to {url}: Read-only file system. Finished shards are kept; "
        "nothing was published.\n"
        "  Choose another location with `--store DIR`, or get write access.\n"
    )
    removed = gsx("gc", key, "--delete", "--store", url)
    assert removed.code == 3
    assert "Read-only file system" in removed.err


def test_two_simultaneous_commands_build_a_key_once(tmp_path):
    running = [start(tmp_path / "store", "--json", graphs=600) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    results = [json.loads(out) for out, _ in outputs]
    assert sorted(result["reused"] for result in results) == [False, True]
    assert results[0]["digest"] == results[1]["digest"]
    assert len(list(Store.at(tmp_path / "store").entries())) == 1
    assert leftover_files(tmp_path / "store") == []


def test_an_interrupted_command_prints_a_message_and_resumes(tmp_path):
    store = tmp_path / "store"
    process = start(store, graphs=6000, file_format="parquet")
    while not finished_files(store):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert (
        err.strip()
        == "Stopped. Finished shards and epochs are kept; run the same command to resume."
    )
    assert list(Store.at(store).entries()) == []
    kept = finished_files(store)
    assert run(store, graphs=6000, file_format="parquet").returncode == 0
    files = published_files(store)
    assert len(kept) > 0
    assert {path: files[path] for path in kept} == kept


@pytest.mark.slow
def test_a_terminated_command_resumes(tmp_path):
    store = tmp_path / "store"
    process = start(store, graphs=6000, file_format="parquet")
    while not finished_files(store):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert list(Store.at(store).entries()) == []
    assert run(store, graphs=6000, file_format="parquet").returncode == 0
