"""Workers read raw data and try choices: the same bytes, the same trials, wherever it is done."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import PartialError, StageError, StoreError
from gsx.pipeline.distributed.build_shards import OUT_OF_MEMORY, Failure, Result
from gsx.pipeline.distributed.map_blocks import read_by
from gsx.pipeline.distributed.worker_tasks import read_block
from gsx.pipeline.tuning.study import Trial
from gsx.pipeline.tuning.trial import Common
from gsx.pipeline.tuning.trial_executor import _job, attempts_by, try_choice
from gsx.stages.prepare.array_blocks import pack
from gsx.stages.prepare.benchmarks import cmnist as images
from gsx.stages.prepare.block_executor import spread, spread_by
from gsx.stages.prepare.readers import smiles_blocks as molecule_rows
from gsx.storage.artifacts.event_log import RunLog
from gsx.storage.artifacts.store import Store
from tests.integration.test_tune import SIZES, SMALL, unchanged
from tests.support.artifacts import gsx
from tests.support.cluster import Cluster, log_of
from tests.support.run_stages import write_small_corpus
from tests.unit.stages.prepare.benchmarks.test_cmnist import skimage, written
from tests.unit.stages.prepare.user.test_user_molecules import table

pytestmark = pytest.mark.timeout(900)  # many processes start, and machines may be busy


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(molecule_rows, "BLOCK", 7)
    monkeypatch.setattr(images, "_BLOCK", 5)


def made(*words):
    said = gsx(*map(str, words), "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)


def molecules(tmp_path):
    return "--smiles", table(tmp_path), "--target", "active", "--domain", "size"


def digits(tmp_path):
    skimage()
    return "cmnist-color", "--raw", written(tmp_path), "--num-graphs", 80


@pytest.mark.parametrize(("source", "blocks"), [(molecules, 6), (digits, 10)])
def test_a_cluster_reads_raw_data_into_the_same_bytes(
    tmp_path, cluster, small_blocks, monkeypatch, source, blocks
):
    words = source(tmp_path)
    monkeypatch.setenv("GSX_WORKERS", "1")
    plain = made("prepare", *words, "--store", tmp_path / "plain")
    there = made(
        "prepare", *words, "--store", tmp_path / "there", "--scheduler", cluster.address
    )  # fmt: skip
    assert there["digest"] == plain["digest"]
    read = [e for e in log_of(tmp_path / "there", there["key"]) if e["event"] == "read"]
    assert sum(e["blocks"] for e in read) >= blocks
    assert {e["workers"] for e in read} == {2}


@pytest.mark.stress
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_reads_the_same_bytes(tmp_path, small_blocks, workers):
    words = molecules(tmp_path)
    plain = made("prepare", *words, "--store", tmp_path / "plain")
    there = made("prepare", *words, "--store", tmp_path / "there", "--workers", workers)
    assert there["digest"] == plain["digest"]


def test_data_of_one_block_needs_no_workers(tmp_path):
    nobody = ("--scheduler", "tcp://127.0.0.1:1", "--store", tmp_path)
    assert made("prepare", *molecules(tmp_path), *nobody)["reused"] is False


class OddCrew:
    """Does tasks in this process, as many at once as there are, and ends them in any order."""

    size = 3

    def __init__(self, order, failure=None):
        self.order, self.failure = order, failure

    def each(self, do, tasks, sort, tick=None):
        tasks = list(tasks)
        for number in self.order:
            reader, _, block = tasks[number].data.partition(b"\n")
            assert reader == b"smiles"
            yield Result(number=number, data=block, failure=self.failure)


@given(order=st.permutations(range(6)))
def test_what_is_read_comes_in_the_order_of_the_blocks(order, tmp_path_factory):
    blocks = [{"number": np.array(number)} for number in range(6)]
    log = RunLog(tmp_path_factory.getbasetemp(), "odd")
    with spread_by(lambda name, given: read_by(OddCrew(order), name, given, log)):
        found = list(spread("smiles", blocks, 2))
    assert [int(each["number"]) for each in found] == list(range(6))


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (
            Failure(kind=OUT_OF_MEMORY, text="its worker outgrew its memory limit of 1 MB."),
            StageError,
            r"block 1 of smiles could not be read: its worker outgrew its memory limit of 1 MB\.",
        ),
        (Failure(kind="StoreError", text="no store"), StoreError, "no store"),
        (Failure(kind="KeyError", text="'a'", trace="in read"), RuntimeError, "in read"),
    ],
)
def test_a_block_that_cannot_be_read_is_an_error(tmp_path, failure, kind, message):
    crew, blocks = OddCrew([1, 0], failure), [{"a": np.zeros(1)}] * 2
    with pytest.raises(kind, match=message):
        list(read_by(crew, "smiles", blocks, RunLog(tmp_path, "a")))


def test_a_worker_refuses_to_read_for_other_code(tmp_path):
    job = b'{"stage":"prepare","config":{"dataset":"smiles"},"inputs":{},"key":"","source":"%s",'
    job += b'"versions":{},"draft":""}'
    result = read_block(job % (b"0" * 64), 3, b"smiles\n" + pack({}), str(tmp_path))
    assert result.number == 3
    assert "this worker has other code of prepare" in result.failure.text


def test_a_cluster_tries_what_this_process_would_try(tmp_path, cluster):
    (tmp_path / "space.toml").write_text(SMALL)
    words = ("--space", tmp_path / "space.toml", "--epochs", 1, "--trials", 3, "--round", 2)
    told = []
    for store, more in (("here", ()), ("there", ("--scheduler", cluster.address))):
        corpus = write_small_corpus(tmp_path / store, unchanged, sizes=SIZES)
        told.append(made("tune", corpus.key, *words, *more, "--store", tmp_path / store))
    for here, there in zip(*(each["trials"] for each in told), strict=True):
        assert there["options"] == here["options"]
        assert (there["ood_val"], there["model_keys"]) == (here["ood_val"], here["model_keys"])
    assert told[0]["best"] == told[1]["best"]
    events = [e for e in log_of(tmp_path / "there", corpus.manifest.digest) if "trial" in e]
    assert sorted(e["trial"] for e in events) == [0, 1, 2]
    assert len({e["worker"] for e in events}) == 2


class LostCrew:
    """A crew that loses every task."""

    size = 1

    def __init__(self, kind, text):
        self.failure = Failure(kind=kind, text=text)

    def each(self, do, tasks, sort, tick=None):
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
    with pytest.raises(error, match=message):
        list(attempts_by(LostCrew(kind, "too little."), [trial], RunLog(tmp_path, "a")))


def test_a_worker_refuses_to_try_for_others(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    job = _job(Common(), corpus, Store.at(tmp_path))
    for change, message in (
        ({"source": "0" * 64}, "this worker has other code of tune"),
        ({"key": "0" * 64}, "this worker finds another corpus at"),
        ({"versions": {"torch": "0"}}, "whoever asked has 0"),
    ):
        data = msgspec.json.encode(msgspec.structs.replace(job, **change))
        assert message in try_choice(data, 0, b"{}", "").failure.text
