"""Workers read raw data and run trials: results do not depend on where they run."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import PartialError, StageError, StoreError
from gsx.pipeline.distributed.map_blocks import DaskBlockExecutor
from gsx.pipeline.distributed.retry import (
    MAX_MEMORY_OVERFLOWS,
    MAX_STORE_RETRIES,
    MAX_WORKER_LOSSES,
    TaskAttempts,
)
from gsx.pipeline.distributed.tasks import OUT_OF_MEMORY, Failure, Result
from gsx.pipeline.distributed.worker_tasks import process_block_task
from gsx.pipeline.tuning.study import Trial
from gsx.pipeline.tuning.trial import SharedOptions
from gsx.pipeline.tuning.trial_executor import make_trial_job, run_trial_task, run_trials_on
from gsx.stages.array_blocks import pack
from gsx.stages.prepare.benchmarks import cmnist
from gsx.stages.prepare.readers import smiles_blocks
from gsx.stages.prepare.readers.smiles_blocks import parse_block
from gsx.storage.artifacts.event_log import EventLog
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx
from tests.support.cluster import Cluster, read_event_log
from tests.support.raw_files import write_alcohols_csv, write_mnist
from tests.support.tuning import SMALL_SPACE, write_tuning_corpus

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(smiles_blocks, "BLOCK_ROWS", 7)
    monkeypatch.setattr(cmnist, "_BLOCK_IMAGES", 5)


def json_output(*words):
    output = gsx(*map(str, words), "--json")
    assert output.code == 0, output.err
    return json.loads(output.out)


def molecules(tmp_path):
    return "--smiles", write_alcohols_csv(tmp_path), "--target", "active", "--domain", "size"


def digits(tmp_path):
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    return "cmnist-color", "--raw", write_mnist(tmp_path), "--num-graphs", 80


@pytest.mark.parametrize(("source", "blocks"), [(molecules, 6), (digits, 10)])
def test_a_cluster_reads_raw_data_into_the_same_bytes(
    tmp_path, cluster, small_blocks, monkeypatch, source, blocks
):
    words = source(tmp_path)
    monkeypatch.setenv("GSX_WORKERS", "1")
    local = json_output("prepare", *words, "--store", tmp_path / "local")
    remote = json_output(
        "prepare", *words, "--store", tmp_path / "remote", "--scheduler", cluster.address
    )
    assert remote["digest"] == local["digest"]
    events = read_event_log(tmp_path / "remote", remote["key"])
    reads = [event for event in events if event["event"] == "read"]
    assert sum(event["blocks"] for event in reads) >= blocks
    assert {event["workers"] for event in reads} == {2}


@pytest.mark.stress
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_reads_the_same_bytes(tmp_path, small_blocks, workers):
    words = molecules(tmp_path)
    local = json_output("prepare", *words, "--store", tmp_path / "local")
    parallel = json_output(
        "prepare", *words, "--store", tmp_path / "parallel", "--workers", workers
    )
    assert parallel["digest"] == local["digest"]


def test_a_single_block_starts_no_workers(tmp_path):
    unreachable = ("--scheduler", "tcp://127.0.0.1:1", "--store", tmp_path)
    assert json_output("prepare", *molecules(tmp_path), *unreachable)["reused"] is False


class BlockExecutorStub:
    """Returns the blocks themselves as results, in a given order."""

    num_workers = 3

    def __init__(self, order, failure=None):
        self.order, self.failure = order, failure

    def map_unordered(self, function, tasks, kind, on_progress=None):
        tasks = list(tasks)
        for number in self.order:
            reference, _, block = tasks[number].data.partition(b"\n")
            assert reference.endswith(b":parse_block")
            yield Result(number=number, data=block, failure=self.failure)


@given(order=st.permutations(range(6)))
def test_results_come_in_the_order_of_the_blocks(order, tmp_path_factory):
    blocks = [{"number": np.array(number)} for number in range(6)]
    log = EventLog(tmp_path_factory.getbasetemp(), "odd")
    executor = DaskBlockExecutor(lambda: BlockExecutorStub(order), log)
    results = list(executor.map(parse_block, blocks))
    assert [int(result["number"]) for result in results] == list(range(6))


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (
            Failure(kind=OUT_OF_MEMORY, text="its worker exceeded its memory limit of 1 MB."),
            StageError,
            r"block 1 of .*:parse_block failed: its worker exceeded its memory limit of 1 MB\.",
        ),
        (Failure(kind="StoreError", text="no store"), StoreError, "no store"),
        (Failure(kind="KeyError", text="'a'", trace="in read"), RuntimeError, "in read"),
    ],
)
def test_a_failing_block_is_an_error(tmp_path, failure, kind, message):
    stub, blocks = BlockExecutorStub([1, 0], failure), [{"a": np.zeros(1)}] * 2
    executor = DaskBlockExecutor(lambda: stub, EventLog(tmp_path, "a"))
    with pytest.raises(kind, match=message):
        list(executor.map(parse_block, blocks))


def test_a_worker_rejects_blocks_of_a_client_with_other_code(tmp_path):
    job = b'{"stage":"prepare","config":{"dataset":"smiles"},"inputs":{},"key":"","source":"%s",'
    job += b'"versions":{},"draft":""}'
    data = b"gsx.stages.prepare.readers.smiles_blocks:parse_block\n" + pack({})
    result = process_block_task(job % (b"0" * 64), 3, data, str(tmp_path))
    assert result.number == 3
    assert "a different version of the `prepare` code" in result.failure.text


def test_a_cluster_runs_the_same_trials(tmp_path, cluster):
    (tmp_path / "space.toml").write_text(SMALL_SPACE)
    words = ("--space", tmp_path / "space.toml", "--epochs", 1, "--trials", 3, "--round", 2)
    outputs = []
    for store, more in (("local", ()), ("remote", ("--scheduler", cluster.address))):
        corpus = write_tuning_corpus(tmp_path / store)
        outputs.append(json_output("tune", corpus.key, *words, *more, "--store", tmp_path / store))
    for local, remote in zip(*(output["trials"] for output in outputs), strict=True):
        assert remote["options"] == local["options"]
        assert (remote["ood_val"], remote["model_keys"]) == (local["ood_val"], local["model_keys"])
    assert outputs[0]["best"] == outputs[1]["best"]
    events = read_event_log(tmp_path / "remote", corpus.manifest.digest)
    trials = [event for event in events if "trial" in event]
    assert sorted(event["trial"] for event in trials) == [0, 1, 2]
    assert len({event["worker"] for event in trials}) == 2


class FailingExecutor:
    """An executor whose first task fails."""

    num_workers = 1

    def __init__(self, kind, text):
        self.failure = Failure(kind=kind, text=text)

    def map_unordered(self, function, tasks, kind, on_progress=None):
        yield Result(number=0, failure=self.failure)


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (OUT_OF_MEMORY, PartialError, r"trial 3 \({.*}\): too little\. Finished trials are kept\."),
        ("StoreError", StoreError, "too little"),
    ],
)
def test_a_trial_that_no_worker_can_run_ends_the_search(tmp_path, kind, error, message):
    trial = Trial(3, {"train.width": "4"}, None)
    executor = FailingExecutor(kind, "too little.")
    with pytest.raises(error, match=message):
        list(run_trials_on(executor, [trial], EventLog(tmp_path, "a")))


def test_a_worker_rejects_trials_of_a_different_client(tmp_path):
    corpus = write_tuning_corpus(tmp_path)
    job = make_trial_job(SharedOptions(), corpus, Store.at(tmp_path))
    for change, message in (
        ({"source": "0" * 64}, "a different version of the `tune` code"),
        ({"key": "0" * 64}, "this worker finds a different corpus than the client at"),
        ({"versions": {"torch": "0"}}, "the client has 0"),
    ):
        data = msgspec.json.encode(msgspec.structs.replace(job, **change))
        assert message in run_trial_task(data, 0, b"{}", "").failure.text


def test_a_task_is_retried_until_too_many_workers_are_lost():
    attempts = TaskAttempts()
    retries = [attempts.retry_after_loss(1, out_of_memory=False) for _ in range(MAX_WORKER_LOSSES)]
    assert retries == [True] * (MAX_WORKER_LOSSES - 1) + [False]


def test_a_task_is_retried_until_too_many_workers_exceed_their_memory():
    attempts = TaskAttempts()
    retries = [
        attempts.retry_after_loss(1, out_of_memory=True) for _ in range(MAX_MEMORY_OVERFLOWS)
    ]
    assert retries == [True] * (MAX_MEMORY_OVERFLOWS - 1) + [False]


def test_a_task_is_retried_after_errors_of_stores_and_disks_only():
    attempts = TaskAttempts()
    store_error = Failure(kind="StoreError", text="out of reach")
    retries = [attempts.retry_after_failure(store_error) for _ in range(MAX_STORE_RETRIES + 1)]
    assert retries == [True] * MAX_STORE_RETRIES + [False]
    for kind in ("UsageError", "StageError", "KeyError"):
        assert not TaskAttempts().retry_after_failure(Failure(kind=kind, text=""))
    full_disk = Failure(kind="OSError", text="full", errno=28)
    assert TaskAttempts().retry_after_failure(full_disk)
