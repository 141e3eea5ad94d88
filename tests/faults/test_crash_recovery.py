"""Kills, full disks, locked doors, impatience: nothing half-done is ever seen, nothing is lost."""

import contextlib
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
from gsx.storage.corpora.verify_corpus import audit
from tests.support.artifacts import gsx, motif

GRAPHS, SHARD = 1000, 150


def command(store, *words, graphs=GRAPHS, form="both"):
    return [
        sys.executable, "-m", "gsx", "prepare", "motif-size", "--num-graphs", str(graphs),
        "--shard-graphs", str(SHARD), "--format", form, "--store", str(store), *map(str, words),
    ]  # fmt: skip


def start(*words, **options):
    return subprocess.Popen(
        command(*words, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(*words, **options):
    return subprocess.run(command(*words, **options), capture_output=True, text=True, check=False)


@pytest.fixture
def ram(tmp_path):
    """A disk of its own in memory, and a function that gives it other mount options."""
    folder = tmp_path / "ram"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", folder]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk in memory is not permitted here")

    def remount(options):
        subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)

    yield folder, remount
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def quick(tmp_path):
    """A folder in memory where that is permitted, else an ordinary one: kills need no real disk."""
    folder = tmp_path / "quick"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=500m", "tmpfs", folder]
    mounted = shutil.which("mount") and not subprocess.run(mount, capture_output=True).returncode
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", folder], check=True)


def drafts(store):
    return sorted((store / ".drafts").glob("*"))


def finished(store):
    """Return the inode of every file of a finished unit of the one draft, by path."""
    found = {}
    for draft in drafts(store):
        for record in [*draft.glob("progress/*.json"), *draft.glob("earlier/*.json")]:
            with contextlib.suppress(FileNotFoundError):  # taken back at this very moment
                for path in json.loads(record.read_bytes())["files"]:
                    found[path] = (draft / "content" / path).stat().st_ino
    return found


def published(store):
    """Return the inode of every file of the one published corpus, by path inside it."""
    found = {}
    for root in (store / "corpus").glob("*"):
        files = (path for path in root.rglob("*") if path.is_file())
        found |= {path.relative_to(root).as_posix(): path.stat().st_ino for path in files}
    return found


def leftovers(store):
    """Return what lies in a store beside artifacts and locks."""
    return [
        path
        for path in store.rglob("*")
        if path.name.endswith(".tmp")
        or (".drafts" in path.parts and path.name != ".drafts")
        or (path.name.startswith(".") and path.name not in (".drafts", ".locks"))
    ]


def units(store):
    """Return how many units of the one draft have a record."""
    return sum(
        1 for name in ("progress", "earlier") for _ in store.glob(f".drafts/*/{name}/*.json")
    )


class Killer:
    """Starts builds, kills most of them, and checks the store after every kill."""

    def __init__(self):
        self.dice = random.Random(20260718)
        self.kills = self.kills_in_the_middle = self.reused = 0

    def strike(self, process, store):
        """Kill ``process`` at a random moment: as it starts, or after it finished a few units."""
        more = self.dice.randrange(6)
        goal = units(store) + more
        while process.poll() is None and units(store) < goal:
            time.sleep(0.005)
        time.sleep(self.dice.uniform(0, 0.1 if more else 0.8))
        process.kill()
        return process.communicate()

    def build(self, store):
        """Build a corpus, killed again and again until one run survives; return what that said."""
        kept = {}
        while True:
            process = start(store, "--json")
            out, err = self.strike(process, store)
            require_only_whole_artifacts(store)
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, err
                self.compare(kept, published(store))
                return json.loads(out)
            self.kills += 1
            now = finished(store)
            self.kills_in_the_middle += len(now) > len(kept)
            kept = self.compare(kept, now or published(store))

    def compare(self, before, now):
        """What was finished before a kill must be the same file afterwards, not one like it."""
        self.reused += len(before)
        assert {path: now[path] for path in before} == before
        return now


def require_only_whole_artifacts(store):
    found = Store.at(store)
    for place in found.all_places():
        assert audit(place, store=found).problems == ()


@pytest.mark.parametrize(
    "kills",
    [pytest.param(10, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.stress)],
)
def test_kills_lose_nothing_and_show_nothing_half_done(quick, kills):
    assert run(quick / "calm").returncode == 0
    (calm,) = Store.at(quick / "calm").artifacts()
    killer = Killer()
    series = 0
    while killer.kills < kills:
        store = quick / f"store-{series}"
        assert killer.build(store)["digest"] == calm.manifest.digest
        assert leftovers(store) == []
        series += 1
    assert killer.kills_in_the_middle >= kills // 6
    assert killer.reused > 3 * kills


@pytest.mark.slow
def test_a_full_disk_publishes_nothing_and_the_same_command_finishes_later(ram):
    folder, remount = ram
    remount("size=900k")
    store = folder / "store"
    failed = run(store, graphs=3000)
    assert failed.returncode == 3
    assert failed.stderr == (
        f"Error: no space left on {store}. Finished shards are kept; nothing was published.\n"
        "Free some space (`gsx gc` lists what can go) and run the same command again.\n"
    )
    assert list(Store.at(store).entries()) == []
    kept = finished(store)
    assert len(kept) > 3
    remount("size=200m")
    made = run(store, "--json", graphs=3000)
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    now = published(store)
    assert {path: now[path] for path in kept} == kept
    assert audit(Store.at(store).resolve(result["key"]).place).problems == ()
    assert leftovers(store) == []


def test_a_full_disk_can_be_cleared_with_gc(ram):
    folder, remount = ram
    remount("size=300k")
    store = folder / "store"
    assert run(store, graphs=3000, form="parquet").returncode == 3
    assert shutil.disk_usage(folder).free < 50_000
    said = gsx("gc", "--delete", "--store", store)
    assert said.code == 0
    assert "1 items" in said.out
    assert shutil.disk_usage(folder).free > 200_000


def test_a_read_only_store_can_be_read_but_not_written(ram, tmp_path, monkeypatch):
    folder, remount = ram
    store = Store.at(folder / "store")
    made = motif(store)
    remount("ro")
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "another-cache"))
    url = store.place.url
    for words in (("ls",), ("show", made.key), ("verify", "--all"), ("lineage", made.key), ("gc",)):
        said = gsx(*words, "--store", url)
        assert (said.code, said.err) == (0, ""), words
    corpus = package.open(made.key, store=url)
    assert sum(batch.num_graphs for batch in corpus.loader(8, shuffle=True)) == 30
    found = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", url, "--json")
    assert json.loads(found.out)["reused"] is True
    failed = gsx("prepare", "motif-size", "--num-graphs", 40, "--store", url)
    assert failed.code == 3
    assert failed.err == (
        f"Error: cannot write to {url}: Read-only file system. Finished shards are kept; "
        "nothing was published.\n"
        "Choose another place with `--store DIR`, or ask for write access.\n"
    )
    removed = gsx("gc", made.key, "--delete", "--store", url)
    assert removed.code == 3
    assert "Read-only file system" in removed.err


def test_two_commands_for_one_key_at_once_make_it_once(tmp_path):
    running = [start(tmp_path / "store", "--json", graphs=600) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    results = [json.loads(out) for out, _ in said]
    assert sorted(result["reused"] for result in results) == [False, True]
    assert results[0]["digest"] == results[1]["digest"]
    assert len(list(Store.at(tmp_path / "store").entries())) == 1
    assert leftovers(tmp_path / "store") == []


def test_an_interrupted_command_says_so_and_goes_on_next_time(tmp_path):
    store = tmp_path / "store"
    process = start(store, graphs=6000, form="parquet")
    while not finished(store):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == "Stopped. Finished shards are kept; run the same command to go on."
    assert list(Store.at(store).entries()) == []
    kept = finished(store)
    assert run(store, graphs=6000, form="parquet").returncode == 0
    now = published(store)
    assert len(kept) > 0
    assert {path: now[path] for path in kept} == kept


@pytest.mark.slow
def test_a_terminated_command_goes_on_next_time(tmp_path):
    store = tmp_path / "store"
    process = start(store, graphs=6000, form="parquet")
    while not finished(store):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert list(Store.at(store).entries()) == []
    assert run(store, graphs=6000, form="parquet").returncode == 0
