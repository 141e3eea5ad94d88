"""Commands that run at once, on full and read-only disks, and with wrong clocks."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx, motif
from tests.support.cluster import prepare_inputs
from tests.support.command_server import ROOT, CommandServer

pytestmark = [pytest.mark.stress, pytest.mark.timeout(900)]
PREPARE = ("prepare", "motif-size", "--num-graphs", 600, "--shard-graphs", 60)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A process that forks commands."""
    running = CommandServer(tmp_path_factory.mktemp("commands"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A store with a corpus and a bridge model, and their keys."""
    store = tmp_path_factory.mktemp("prepared") / "store"
    return store, prepare_inputs(store)


@pytest.fixture
def store(prepared, tmp_path):
    """A copy of the prepared store."""
    shutil.copytree(prepared[0], tmp_path / "store")
    return tmp_path / "store"


def generate(keys, store, *words):
    """Return the words of a generation that takes a few seconds."""
    return (
        "generate",
        keys["prepare"],
        "--options",
        "001",
        "--bridge",
        keys["bridge"],
        "--count",
        600,
        "--shard-graphs",
        60,
        "--store",
        store,
        "--json",
        *words,
    )


def four(server, *words):
    """Run a command four times at once; return the codes, outputs and messages."""
    running = [server.start(*words) for _ in range(4)]
    return [(one.wait(), one.out.read_text(), one.err.read_text()) for one in running]


def require_intact(*stores):
    for path in stores:
        for location in Store.at(path).all_locations():
            assert verify_artifact(location).problems == ()
        unfinished = [
            file
            for name in (".drafts", ".transfers", ".trash")
            for file in path.glob(f"{name}/**/*")
        ]
        assert [file for file in unfinished if file.suffix != ".lock"] == []


def entries(store, kind="corpus"):
    return [entry for entry in Store.at(store).entries() if entry[0] == kind]


# --- four at once ---------------------------------------------------------------------------------


def test_four_prepare_commands_build_one_generation(server, tmp_path):
    results = four(server, *PREPARE, "--store", tmp_path / "store", "--json")
    assert [code for code, _, _ in results] == [0] * 4, results
    assert sum(not json.loads(out)["reused"] for _, out, _ in results) == 1
    assert len(entries(tmp_path / "store")) == 1
    require_intact(tmp_path / "store")


def test_four_generate_commands_build_one_generation(server, prepared, store):
    results = four(server, *generate(prepared[1], store))
    assert [code for code, _, _ in results] == [0] * 4, results
    assert len({json.loads(out)["digest"] for _, out, _ in results}) == 1
    assert len(entries(store)) == 2
    require_intact(store)


def test_four_train_commands_train_one_model(server, prepared, store):
    words = ("train", prepared[1]["prepare"], "--epochs", 2, "--width", 8, "--json")
    results = four(server, *words, "--store", store)
    assert [code for code, _, _ in results] == [0] * 4, results
    assert len({json.loads(out)["digest"] for _, out, _ in results}) == 1
    assert len(entries(store, "model")) == 1
    require_intact(store)


def test_four_gc_commands_delete_superseded_generations_once(server, store):
    code, _, err = server.run(*PREPARE, "--store", store, "--force")
    assert code == 0, err
    results = four(server, "gc", "--delete", "--store", store)
    assert 0 in [code for code, _, _ in results]
    assert {code for code, _, _ in results} <= {0, 3}, results
    assert not [err for _, _, err in results if "Traceback" in err]
    require_intact(store)


@pytest.mark.parametrize("words", [(), ("--with-lineage",)])
def test_four_pull_commands_leave_one_generation(server, prepared, tmp_path, words):
    artifact = prepared[0] / "corpus" / prepared[1]["prepare"][:32]
    results = four(server, "pull", artifact, "--store", tmp_path / "mine", "--json", *words)
    assert [code for code, _, _ in results] == [0] * 4, results
    assert len(entries(tmp_path / "mine")) == 1
    require_intact(tmp_path / "mine")


def test_four_push_commands_leave_one_generation(server, prepared, store, tmp_path):
    words = ("push", prepared[1]["prepare"], tmp_path / "other", "--store", store, "--json")
    results = four(server, *words)
    assert [code for code, _, _ in results] == [0] * 4, results
    assert len(entries(tmp_path / "other")) == 1
    require_intact(tmp_path / "other")


@pytest.mark.parametrize("layout", ["portable", "csv", "pyg"])
def test_four_export_commands_leave_one_result(server, prepared, store, tmp_path, layout):
    target = tmp_path / "exports" / "corpus"
    words = ("export", prepared[1]["prepare"], target, "--to", layout, "--store", store)
    results = four(server, *words)
    codes = [code for code, _, _ in results]
    assert 0 in codes
    assert set(codes) <= {0, 3}, results
    for _, _, err in results:
        assert "Traceback" not in err
    assert verify_artifact(Store.at(target).location).problems == ()
    assert [path.name for path in target.parent.iterdir()] == ["corpus"]


# --- collection and verification during a generation ----------------------------------------------


def test_gc_and_verify_during_a_generation_change_nothing(server, prepared, store, tmp_path):
    shutil.copytree(store, tmp_path / "reference")
    words = generate(prepared[1], tmp_path / "reference")
    expected = json.loads(server.run(*words)[1])["digest"]
    running = server.start(*generate(prepared[1], store))
    others = 0
    while not (done := ended(running)):
        for command in (
            ("gc", "--delete"),
            ("verify", "--all"),
            ("ls",),
            ("lineage", prepared[1]["bridge"]),
        ):
            code, out, err = server.run(*command, "--store", store)
            assert code == 0, (command, out, err)
        others += 1
    assert running.wait() == 0, running.err.read_text()
    assert others > 0
    assert done
    assert json.loads(running.out.read_text())["digest"] == expected
    require_intact(store)


def ended(running):
    """Return whether a process has ended but was not waited for."""
    fields = Path(f"/proc/{running.pid}/stat").read_text().rsplit(") ", 1)[1]
    return fields.startswith("Z")


def test_removing_the_source_during_a_generation_leaves_nothing_half_visible(
    server, prepared, store
):
    running = server.start(*generate(prepared[1], store))
    time.sleep(0.5)
    key = prepared[1]["prepare"]
    code, _, err = server.run("gc", key, "--delete", "--with-descendants", "--store", store)
    assert code in (0, 2, 3), err
    assert running.wait() in (0, 3, 4, 5), running.err.read_text()
    assert "Traceback" not in running.err.read_text()
    for location in Store.at(store).all_locations():
        assert verify_artifact(location).problems == ()


# --- disks ----------------------------------------------------------------------------------------

WRITERS = {
    "prepare": PREPARE,
    "generate": (
        "generate",
        "{prepare}",
        "--options",
        "001",
        "--bridge",
        "{bridge}",
        "--count",
        3000,
    ),
    "train": ("train", "{prepare}", "--epochs", 2, "--width", 64),
    "bridge": ("pretrain", "bridge", "{prepare}", "--epochs", 2, "--width", 8),
    "describe": ("describe", "{prepare}"),
    "export": ("export", "{prepare}", "{folder}/export"),
    "export csv": ("export", "{prepare}", "{folder}/export", "--to", "csv"),
    "report": ("report", "{prepare}", "-o", "{folder}/report.html"),
    "push": ("push", "{prepare}", "{folder}/other"),
    "tune": ("tune", "{prepare}", "--trials", 1),
    "recommend": ("recommend", "{prepare}", "--budget", "0s", "--recipes", "drop-edge"),
    "tag": ("tag", "{prepare}", "mine"),
}


def words_of(name, keys, folder):
    return [str(word).format(**keys, folder=folder) for word in WRITERS[name]]


@pytest.mark.parametrize("name", list(WRITERS))
def test_full_disks_are_reported_and_the_command_can_be_repeated(server, prepared, ram, name):
    folder, remount = ram
    shutil.copytree(prepared[0], folder / "store")
    words = (*words_of(name, prepared[1], folder), "--store", folder / "store")
    cache = {"GSX_CACHE": str(folder.parent / "cache")}
    used = shutil.disk_usage(folder).used
    for spare in (0, 20_000, 60_000, 150_000):
        remount(f"size={used + spare}")
        code, out, err = server.run(*words, **cache)
        assert code in (0, 3), (spare, code, out, err)
        assert "Traceback" not in err
        if code == 3:
            assert "no space left" in err
        for location in Store.at(folder / "store").all_locations():
            assert verify_artifact(location).problems == ()
    remount("size=200m")
    code, _, err = server.run(*words, **cache)
    assert code == 0, err
    require_intact(folder / "store")


@pytest.mark.parametrize("name", list(WRITERS))
def test_read_only_disks_are_reported(server, prepared, ram, name):
    folder, remount = ram
    shutil.copytree(prepared[0], folder / "store")
    words = (*words_of(name, prepared[1], folder), "--store", folder / "store")
    remount("ro")
    code, out, err = server.run(*words, GSX_CACHE=str(folder.parent / "cache"))
    assert code == 3, (out, err)
    assert re.search("Read-only file system|cannot write", err), err
    assert "Traceback" not in err


# --- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-40 * 365 * 86400, 40 * 365 * 86400], ids=["past", "future"])
def test_files_with_times_far_away_are_read_resumed_and_verified(server, tmp_path, offset):
    store = tmp_path / "store"
    code, out, err = server.run(*PREPARE, "--store", store, "--json")
    assert code == 0, err
    digest = json.loads(out)["digest"]
    killed = server.start(
        "prepare",
        "motif-size",
        "--num-graphs",
        900,
        "--shard-graphs",
        30,
        "--store",
        store,
        kill_at=900,
    )
    assert killed.wait() == -9
    moment = max(time.time() + offset, 0)
    for path in [store, *store.rglob("*")]:
        os.utime(path, (moment, moment), follow_symlinks=False)
    for words in (("verify", "--all"), ("ls",), ("gc",), PREPARE):
        code, out, err = server.run(*words, "--store", store, "--json")
        assert code == 0, (words, err)
    assert json.loads(out) | {"seconds": 0} == json.loads(out) | {
        "digest": digest,
        "reused": True,
        "seconds": 0,
    }
    code, _, err = server.run(
        "prepare", "motif-size", "--num-graphs", 900, "--shard-graphs", 30, "--store", store
    )
    assert code == 0, err
    require_intact(store)


# --- readers --------------------------------------------------------------------------------------

READER = """
import hashlib, sys
import gsx
from gsx.storage.corpora import hot_cache
built = []
write = hot_cache._write
hot_cache._write = lambda *words: (built.append(1), write(*words))[1]
digest = hashlib.sha256()
for batch in gsx.open(sys.argv[1]).loader(16, split="train", shuffle=True, seed=3, cache="always"):
    digest.update(batch.x.numpy().tobytes() + batch.edge_index.numpy().tobytes())
print(len(built), digest.hexdigest())
"""


def test_eight_readers_build_one_hot_cache_and_get_equal_batches(tmp_path, monkeypatch):
    path = motif(Store.at(tmp_path / "store"), num_graphs=600).location.local
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GSX_CACHE": str(tmp_path / "cache")}
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(8)
    ]
    outputs = [reader.communicate(timeout=300) for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * 8, outputs
    built, digests = zip(*(out.split() for out, _ in outputs), strict=True)
    assert sorted(built) == ["0"] * 7 + ["1"]
    assert len(set(digests)) == 1
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "cache"))
    assert "0 items" in gsx("gc", "--store", tmp_path / "store").out
