"""Generation gives the same bytes in this process, on local workers and on a cluster."""

import contextlib
import json
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.pipeline.distributed.tasks import Job
from gsx.pipeline.distributed.worker_tasks import build_shard_task
from gsx.stages.augmented import rejection
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.count_distinct import count_distinct
from tests.support.artifacts import gsx
from tests.support.cluster import (
    NUM_GRAPHS,
    NUM_SHARDS,
    SHARD_GRAPHS,
    Cluster,
    environment,
    file_hashes,
    generate_command,
    generate_in_process,
    json_output,
    prepare_inputs,
    read_event_log,
    run_generate,
    shards_in_state,
)
from tests.support.shuffled_executor import open_shuffled

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store with a corpus and a bridge model, and their keys."""
    folder = tmp_path_factory.mktemp("source")
    return folder, prepare_inputs(folder)


@pytest.fixture(scope="module")
def reference(source):
    """The corpus that this process builds."""
    store, keys = source
    return generate(store, keys)


def generate(store, keys, open_executor=None, *, force=False, **options):
    """Generate in this process, or with an executor."""
    artifacts = {name: Store.at(store).resolve(key) for name, key in keys.items()}
    config = {"options": "001", "count": NUM_GRAPHS, "shard_graphs": SHARD_GRAPHS, **options}
    return generate_in_process(store, artifacts, config, open_executor, force=force)


@settings(max_examples=5)
@given(order=st.permutations([*range(NUM_SHARDS), 0, 3]))
def test_bytes_do_not_depend_on_the_order_of_shards(source, reference, tmp_path_factory, order):
    store, keys = source
    folder = tmp_path_factory.mktemp("odd")
    again = generate(store, keys, open_shuffled(order, folder), force=True)
    assert again.manifest.digest == reference.manifest.digest
    assert again.manifest.files == reference.manifest.files


def test_counting_hashes_on_disk_gives_the_same_numbers(source, reference, monkeypatch):
    monkeypatch.setattr(rejection, "count_distinct", partial(count_distinct, max_in_memory=64))
    store, keys = source
    again = generate(store, keys, None, force=True)
    assert again.manifest.digest == reference.manifest.digest
    assert again.manifest.summary == reference.manifest.summary
    assert 300 < again.manifest.summary["quality"]["option_3"]["distinct"] <= NUM_GRAPHS


def test_two_local_workers_give_the_same_bytes(source, reference, tmp_path):
    store, keys = source
    env = environment(TMPDIR=str(tmp_path))
    output = json_output(run_generate(keys, store, "--workers", 2, "--force", env=env))
    assert output["digest"] == reference.manifest.digest
    assert not list(tmp_path.glob("dask*"))
    events = read_event_log(store, output["key"])
    assert len(shards_in_state(events, "made")) == NUM_SHARDS
    assert set(shards_in_state(events, "made")) < set(file_hashes(store, output["key"]))
    assert len({e["worker"] for e in events if e["event"] == "shard"}) == 2
    assert events[-1]["state"] == "done"


@pytest.mark.stress
@pytest.mark.parametrize("workers", [1, 4])
def test_any_number_of_workers_gives_the_same_bytes(source, reference, workers):
    store, keys = source
    output = json_output(run_generate(keys, store, "--workers", workers, "--force"))
    assert output["digest"] == reference.manifest.digest


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


def test_a_cluster_gives_the_same_bytes(source, reference, cluster):
    store, keys = source
    output = json_output(run_generate(keys, store, "--scheduler", cluster.address, "--force"))
    assert output["digest"] == reference.manifest.digest
    events = read_event_log(store, output["key"])
    assert len({e["worker"] for e in events if e["event"] == "shard"}) == 2


@pytest.fixture
def job(source, tmp_path):
    """A job as workers get it, with a draft that does not exist."""
    store, keys = source
    jobs = []

    @contextlib.contextmanager
    def open_executor(job, draft, log):
        jobs.append(job)
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        generate(store, keys, open_executor, seed=5)
    return msgspec.structs.replace(jobs[0], draft=str(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({}, "StoreError", "this worker cannot access"),
        ({"source": "0" * 64}, "UsageError", "a different version of the `generate` code"),
        ({"key": "0" * 64}, "StoreError", "finds different inputs of `generate`"),
        ({"versions": {"pyarrow": "1.0"}}, "UsageError", "the client has 1.0"),
        ({"versions": {"carrots": "1.0"}}, "UsageError", "carrots is not installed"),
    ],
)
def test_a_worker_rejects_a_job_that_would_give_other_bytes(job, tmp_path, change, kind, text):
    data = msgspec.json.encode(msgspec.structs.replace(job, **change))
    result = build_shard_task(data, 0, b"", str(tmp_path))
    assert result.failure.kind == kind
    assert text in result.failure.text
    assert result.failure.affects_all_tasks


def test_a_job_is_small_json(job):
    data = msgspec.json.encode(job)
    assert len(data) < 5000
    assert msgspec.json.encode(msgspec.json.decode(data, type=Job)) == data


def test_a_missing_scheduler_is_reported(source):
    store, keys = source
    completed = run_generate(keys, store, "--scheduler", "tcp://127.0.0.1:1", "--force")
    assert completed.returncode == 2
    assert "no Dask scheduler at tcp://127.0.0.1:1" in completed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", 0), "--workers must be at least 1; got 0"),
        (("--workers", 2, "--scheduler", "x"), "--workers and --scheduler exclude each other"),
        (("--workers", 2, "--memory-limit", "lots"), "--memory-limit must be a size such as 4GB"),
    ],
)
def test_invalid_worker_options_are_rejected(source, words, message):
    store, keys = source
    output = gsx(*generate_command(keys, store, *words, seed=99)[3:])
    assert output.code == 2
    assert message in output.err


def test_reusing_an_artifact_starts_no_workers(source, reference):
    store, keys = source
    output = gsx(*generate_command(keys, store, "--scheduler", "tcp://127.0.0.1:1")[3:])
    assert output.code == 0
    assert json.loads(output.out)["reused"] is True
