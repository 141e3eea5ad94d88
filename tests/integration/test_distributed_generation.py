"""The same bytes from this process, from many, and from a cluster that loses some of them."""

import contextlib
import json
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.pipeline.distributed.build_shards import Job
from gsx.pipeline.distributed.worker_tasks import make_shard
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.stages.augmented import rejection as beside
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.count_distinct import count_distinct
from tests.support import cluster as scale
from tests.support.artifacts import gsx
from tests.support.cluster import (
    COUNT,
    SHARDS,
    Cluster,
    environment,
    files_of,
    log_of,
    made,
    prepared,
    run,
    shards_of,
)

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store with a corpus and a bridge model, and their keys."""
    folder = tmp_path_factory.mktemp("source")
    return folder, prepared(folder)


@pytest.fixture(scope="module")
def plain(source):
    """The corpus that this process makes."""
    store, keys = source
    return generate(store, keys)


def generate(store, keys, hire=None, *, force=False, **options):
    """Generate in this process, or by the crew that ``hire`` opens."""
    given = {name: Store.at(store).resolve(key) for name, key in keys.items()}
    chosen = {"options": "001", "count": scale.COUNT, "shard_graphs": scale.SHARD, **options}
    return generate_by(store, given, chosen, hire, force=force)


def generate_by(store, given, options, hire=None, *, force=False):
    """Generate from artifacts, by the names of the stages that make them."""
    stage, config = stage_named("generate"), parse_config("generate", options, "test")
    plan = (Step(stage, config, stage.inputs_of(config)),)
    steps = run_plan(plan, Store.at(store), given=given, hire=hire, force=force)
    return next(built for _, built in steps).artifact


class OddCrew:
    """Makes shards in this process as a worker would, in any order and some of them twice."""

    size = 3

    def __init__(self, job, order, folder):
        self.job, self.order, self.folder = msgspec.json.encode(job), order, folder

    def results(self, plans, tick):
        done = set()
        for number in self.order:
            result = make_shard(self.job, number % len(plans), b"", str(self.folder))
            if result.number not in done:
                done.add(result.number)
                yield result


@settings(max_examples=5)
@given(order=st.permutations([*range(SHARDS), 0, 3]))
def test_the_order_in_which_shards_end_changes_no_byte(source, plain, tmp_path_factory, order):
    store, keys = source
    folder = tmp_path_factory.mktemp("odd")

    @contextlib.contextmanager
    def hire(job, draft, log):
        yield OddCrew(job, order, folder)

    again = generate(store, keys, hire, force=True)
    assert again.manifest.digest == plain.manifest.digest
    assert again.manifest.files == plain.manifest.files


def test_hashes_that_wait_on_disk_change_no_number(source, plain, monkeypatch):
    monkeypatch.setattr(beside, "count_distinct", partial(count_distinct, most=64))
    store, keys = source
    again = generate(store, keys, None, force=True)
    assert again.manifest.digest == plain.manifest.digest
    assert again.manifest.summary == plain.manifest.summary
    assert 300 < again.manifest.summary["quality"]["option_3"]["distinct"] <= COUNT


def test_two_workers_make_the_same_bytes(source, plain, tmp_path):
    store, keys = source
    env = environment(TMPDIR=str(tmp_path))
    said = made(run(keys, store, "--workers", 2, "--force", env=env))
    assert said["digest"] == plain.manifest.digest
    assert not list(tmp_path.glob("dask*"))
    events = log_of(store, said["key"])
    assert len(shards_of(events, "made")) == SHARDS
    assert set(shards_of(events, "made")) < set(files_of(store, said["key"]))
    assert len({e["worker"] for e in events if e["event"] == "shard"}) == 2
    assert events[-1]["state"] == "done"


@pytest.mark.stress
@pytest.mark.parametrize("workers", [1, 4])
def test_any_number_of_workers_makes_the_same_bytes(source, plain, workers):
    store, keys = source
    said = made(run(keys, store, "--workers", workers, "--force"))
    assert said["digest"] == plain.manifest.digest


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


def test_a_cluster_reached_by_address_makes_the_same_bytes(source, plain, cluster):
    store, keys = source
    said = made(run(keys, store, "--scheduler", cluster.address, "--force"))
    assert said["digest"] == plain.manifest.digest
    events = log_of(store, said["key"])
    assert len({e["worker"] for e in events if e["event"] == "shard"}) == 2


@pytest.fixture
def job(source, tmp_path):
    """A job as workers get it, of a draft that is not there."""
    store, keys = source
    found = []

    @contextlib.contextmanager
    def hire(job, draft, log):
        found.append(job)
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        generate(store, keys, hire, seed=5)
    return msgspec.structs.replace(found[0], draft=str(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({}, "StoreError", "this worker does not see"),
        ({"source": "0" * 64}, "UsageError", "has other code of generate"),
        ({"key": "0" * 64}, "StoreError", "finds other inputs of generate"),
        ({"versions": {"pyarrow": "1.0"}}, "UsageError", "whoever asked has 1.0"),
        ({"versions": {"carrots": "1.0"}}, "UsageError", "carrots not at all"),
    ],
)
def test_a_worker_refuses_what_would_give_other_bytes(job, tmp_path, change, kind, text):
    data = msgspec.json.encode(msgspec.structs.replace(job, **change))
    result = make_shard(data, 0, b"", str(tmp_path))
    assert result.failure.kind == kind
    assert text in result.failure.text
    assert result.failure.everywhere


def test_a_job_is_small_and_plain(job):
    data = msgspec.json.encode(job)
    assert len(data) < 5000
    assert msgspec.json.encode(msgspec.json.decode(data, type=Job)) == data


def test_an_address_without_a_scheduler_is_named(source):
    store, keys = source
    done = run(keys, store, "--scheduler", "tcp://127.0.0.1:1", "--force")
    assert done.returncode == 2
    assert "no Dask scheduler at tcp://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", 0), "--workers must be at least 1; got 0"),
        (("--workers", 2, "--scheduler", "x"), "give --workers or --scheduler, not both"),
        (("--workers", 2, "--memory-limit", "lots"), "--memory-limit must be a size such as 4GB"),
    ],
)
def test_impossible_workers_are_refused(source, words, message):
    store, keys = source
    said = gsx(*scale.command(keys, store, *words, seed=99)[3:])
    assert said.code == 2
    assert message in said.err


def test_what_is_there_needs_no_workers(source, plain):
    store, keys = source
    said = gsx(*scale.command(keys, store, "--scheduler", "tcp://127.0.0.1:1")[3:])
    assert said.code == 0
    assert json.loads(said.out)["reused"] is True
