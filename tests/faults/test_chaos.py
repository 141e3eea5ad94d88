"""Kill -9 at random moments of every command that writes: nothing half visible, nothing lost."""

import json
import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.cluster import prepare_inputs
from tests.support.command_server import CommandServer

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]
SEED = 20261118


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A process that forks commands."""
    running = CommandServer(tmp_path_factory.mktemp("commands"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, server):
    """A store with a corpus, a bridge model and two generations, and the keys."""
    store = tmp_path_factory.mktemp("inputs") / "store"
    keys = prepare_inputs(store)
    for words in (
        ("--num-graphs", 1200, "--shard-graphs", 100),
        ("--num-graphs", 60),
        ("--num-graphs", 60, "--force"),
    ):
        code, out, err = server.run("prepare", "motif-size", *words, "--store", store, "--json")
        assert code == 0, err
        keys.setdefault("large", json.loads(out)["key"])
    return store, keys


@dataclass
class Scenario:
    """One command: what it needs, and how its result is compared."""

    name: str
    kills: int
    needs_inputs: bool = True
    words: tuple = ()
    kill_events: bool = True
    """Whether kills happen at file operations; otherwise only at random times."""


PREPARE = ("prepare", "motif-size", "--num-graphs", 400, "--shard-graphs", 40, "--format", "both")
GENERATE = (
    "generate",
    "{prepare}",
    "--options",
    "001",
    "--bridge",
    "{bridge}",
    "--count",
    200,
    "--shard-graphs",
    50,
)
SCENARIOS = (
    Scenario("prepare", 40, needs_inputs=False, words=PREPARE),
    Scenario("generate", 30, words=GENERATE),
    Scenario("generate with workers", 8, words=(*GENERATE, "--workers", 2), kill_events=False),
    Scenario("train", 30, words=("train", "{prepare}", "--epochs", 4, "--width", 8, "--layers", 2)),
    Scenario("export", 32, words=("export", "{large}", "{out}/export")),
    Scenario("push", 24, words=("push", "{large}", "{out}/other")),
    Scenario("pull", 40, words=("pull", "{inputs}/corpus/{large:.32}")),
    Scenario("gc", 20, words=("gc", "--delete")),
)


def test_there_are_at_least_two_hundred_kills():
    assert sum(scenario.kills for scenario in SCENARIOS) >= 200


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_kills_leave_nothing_half_visible_and_the_next_run_gives_the_same(
    scenario, server, inputs, fast_folder, monkeypatch
):
    monkeypatch.setenv("GSX_CACHE", str(fast_folder / "cache"))
    generator = random.Random(f"{SEED}{scenario.name}")
    reference = Run(scenario, server, inputs, fast_folder / "reference")
    seconds, events = reference.measure()
    digest = reference.digest()
    kills = attempts = 0
    while kills < scenario.kills:
        attempts += 1
        assert attempts < 6 * scenario.kills
        run = Run(scenario, server, inputs, fast_folder / f"run-{attempts}")
        for _ in range(generator.choice((1, 1, 2))):
            if scenario.kill_events and generator.random() < 0.7:
                kills += run.kill_at_event(generator.randrange(1, events + 1))
            else:
                kills += run.kill_after(generator.uniform(0, seconds))
            run.require_nothing_half_visible()
        code, _, err = run.finish()
        assert code == 0, err
        assert run.digest() == digest
        run.require_nothing_half_visible()
        run.require_no_leftovers()
        run.remove()


class Run:
    """A store in which a command is killed and repeated."""

    def __init__(self, scenario, server, inputs, folder):
        self.scenario, self.server, self.folder = scenario, server, folder
        self.store, self.out, self.cache = folder / "store", folder / "out", folder / "cache"
        self.source, keys = inputs
        for path in (self.out, self.cache):
            path.mkdir(parents=True)
        if scenario.needs_inputs and scenario.name != "pull":
            shutil.copytree(self.source, self.store)
        if scenario.name == "gc":
            self._leave_garbage()
        fields = {**keys, "out": self.out, "inputs": self.source}
        words = [str(word).format(**fields) for word in scenario.words]
        if scenario.name == "pull":
            words[1] = str(self.source / "corpus" / keys["large"][:32])
        self.words = [*words, "--store", str(self.store), "--json"]
        self.environment = {"GSX_CACHE": str(self.cache)}

    def _leave_garbage(self):
        """Add an abandoned draft, a transfer, and a half-removed artifact."""
        for name in (".drafts", ".transfers", ".trash"):
            for number in range(3):
                content = self.store / name / f"{number:064x}" / "content" / "data"
                content.mkdir(parents=True, exist_ok=True)
                for file in range(5):
                    (content / f"{file}.parquet").write_bytes(b"x" * 1000)

    def measure(self):
        """Run undisturbed; return seconds and number of file operations."""
        started = time.monotonic()
        kill_at = 0 if self.scenario.kill_events else None
        running = self.server.start(*self.words, kill_at=kill_at, **self.environment)
        assert running.wait() == 0, running.err.read_text()
        events = int(running.out.with_suffix(".events").read_text()) if kill_at == 0 else 0
        return time.monotonic() - started, events

    def kill_at_event(self, number):
        """Let the command kill itself at a file operation; return whether it did."""
        return self.server.start(*self.words, kill_at=number, **self.environment).wait() == -9

    def kill_after(self, seconds):
        """Kill the command after a time; return whether it was still running."""
        running = self.server.start(*self.words, **self.environment)
        time.sleep(seconds)
        return running.kill()

    def finish(self):
        """Run the command to its end, without workers: they change no bytes."""
        words = (
            self.words[: self.words.index("--workers")]
            if "--workers" in self.words
            else self.words[:-3]
        )
        return self.server.run(*words, *self.words[-3:], **self.environment)

    def roots(self):
        """Return the stores and exports that the command may have changed."""
        return [Store.at(path) for path in (self.store, self.out / "other") if path.exists()]

    def artifacts(self):
        """Return the locations of all visible artifacts."""
        locations = [location for store in self.roots() for location in store.all_locations()]
        if (self.out / "export").exists():
            locations.append(Store.at(self.out / "export").location)
        return locations

    def digest(self):
        """Return the names of visible artifacts with the digests in their manifests."""
        result = {}
        for location in self.artifacts():
            manifest = json.loads((location.local / "manifest.json").read_bytes())
            result[str(location.local.relative_to(self.folder))] = manifest["digest"]
        return result

    def require_nothing_half_visible(self):
        """Verify every artifact that is visible."""
        for location in self.artifacts():
            assert verify_artifact(location).problems == (), location.url

    def require_no_leftovers(self):
        """Every file belongs to an artifact, is a lock or a record, or is listed by `gsx gc`."""
        for store in self.roots():
            code, out, err = self.server.run(
                "gc", "--store", store.location.url, "--json", **self.environment
            )
            assert code == 0, err
            listed = [Path(item["path"]) for item in json.loads(out)["items"]]
            root = store.location.local
            artifacts = [location.local for location in store.all_locations()]
            for path in root.rglob("*"):
                known = path.is_dir() or {".locks", ".runs"} & set(path.relative_to(root).parts)
                if path.parent.name == ".origins":
                    known = (root / path.stem.replace("-", "/", 1)).is_dir()
                known = known or path.suffix == ".lock"
                inside = any(path.is_relative_to(owner) for owner in (*listed, *artifacts))
                assert known or inside, f"leftover {path.relative_to(root)}"
        strange = {path.name for path in self.out.iterdir()} - {"other", "export"}
        assert strange == set(), "leftovers next to the target"

    def remove(self):
        """Delete everything."""
        for folder, _, _ in os.walk(self.folder):
            Path(folder).chmod(0o700)
        shutil.rmtree(self.folder)
