"""Workers that upload shards to an object store: killed, duplicated, and leaking no credentials."""

import json
import time

import psutil
import pytest

import gsx as package
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.artifacts.worker_upload import (
    find_uploaded_shard,
    remove_upload_records,
    upload_records,
    upload_shard,
)
from gsx.storage.corpora.verify_corpus import verify_artifact
from gsx.storage.sharing.copy_out import upload_copy
from tests.support.artifacts import gsx
from tests.support.cluster import (
    environment,
    json_output,
    prepare_inputs,
    run_generate,
    shards_in_state,
    start_generate,
    worker_processes,
)
from tests.support.remote_stores import ACCESS, SECRET, ignore_unclosed_sessions, list_files

pytestmark = [
    ignore_unclosed_sessions,
    pytest.mark.timeout(900),
]
SIZES = {"count": 1000, "shard": 25}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a local store with a corpus and a bridge model, their keys and the expected digest."""
    folder = tmp_path_factory.mktemp("source")
    keys = prepare_inputs(folder)
    return folder, keys, json_output(run_generate(keys, folder, **SIZES))["digest"]


def sent(source, url):
    """Copy the inputs of the generate stage into the store at ``url``."""
    local = Store.at(source[0])
    for key in source[1].values():
        artifact = local.resolve(key)
        upload_copy(artifact, f"{url}/{artifact.manifest.kind}/{key[:32]}")
    return source[1]


def events_of(cache):
    path = max(cache.rglob(".runs/*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_workers_killed_during_upload_lose_no_shards_and_leak_no_credentials(
    source,
    s3,
    tmp_path,
):
    keys = sent(source, s3)
    env = environment(GSX_CACHE=str(tmp_path / "cache"))
    process = start_generate(keys, s3, "--workers", 2, env=env, **SIZES)
    location = Store.at(s3).location
    while len([path for path in list_files(Store.at(s3)) if path.startswith(".drafts/")]) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    workers = worker_processes(process)
    process.kill()
    process.communicate()
    _, left = psutil.wait_procs(workers, timeout=60)
    assert not left  # workers stop with their client
    records = [path for path in list_files(Store.at(s3)) if path.startswith(".drafts/")]
    assert [kind for kind, _, _ in Store.at(s3).entries()] == ["bridge", "corpus"]
    done = run_generate(keys, s3, "--workers", 2, env=env, **SIZES)
    result = json_output(done)
    assert result["digest"] == source[2]
    events = events_of(tmp_path / "cache")
    assert len(shards_in_state(events, "kept")) == len(records)
    assert not [path for path in list_files(Store.at(s3)) if path.startswith(".")]
    assert verify_artifact(Store.at(s3).resolve(result["key"]).location).problems == ()
    corpus = package.open(result["key"], store=s3)
    assert sum(b.num_graphs for b in corpus.loader(64, split="train", cache="never")) == 1120
    texts = [done.stdout.encode(), done.stderr.encode()]
    texts += [location.read_bytes(path, limit=1 << 24) for path in list_files(Store.at(s3))]
    texts += [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not any(word.encode() in text for text in texts for word in (ACCESS, SECRET))


@pytest.mark.stress
def test_two_clients_with_workers_share_the_work_and_one_publishes(source, s3, tmp_path):
    keys = sent(source, s3)
    running = [
        start_generate(
            keys, s3, "--workers", 1, env=environment(GSX_CACHE=str(tmp_path / f"{n}")), **SIZES
        )
        for n in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=800) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    results = [json.loads(out) for out, _ in outputs]
    assert {result["digest"] for result in results} == {source[2]}
    assert verify_artifact(Store.at(s3).resolve(results[0]["key"]).location).problems == ()
    assert not [path for path in list_files(Store.at(s3)) if path.startswith(".")]


def test_a_copy_goes_to_an_object_store_whole(s3, tmp_path):
    words = ("prepare", "motif-size", "--num-graphs", 30, "--store", tmp_path / "store", "--json")
    result = json.loads(gsx(*words, "--out", f"{s3}/copy").out)
    assert result["path"] == f"{s3}/copy"
    assert len(package.open(f"{s3}/copy")) == 30
    assert verify_artifact(Location.at(f"{s3}/copy")).problems == ()
    assert json.loads(gsx(*words, "--out", f"{s3}/copy").out)["reused"] is True
    other = gsx(*words[:2], "--num-graphs", 40, *words[4:], "--out", f"{s3}/copy")
    assert other.code == 3
    assert f"{s3}/copy" in other.err


@pytest.fixture
def draft(tmp_path):
    draft = Draft(tmp_path / "draft")
    draft.prepare("code")
    draft.write_bytes("data/a", b"first")
    draft.write_bytes("hashes/a", b"second")
    return draft


NAMES = ("data/a", "hashes/a")


def test_an_uploaded_shard_is_reused_by_the_same_code_only(memory, draft):
    store = Location.at(memory)
    target, records = store.child("corpus/x"), upload_records(store, "0" * 64)
    assert find_uploaded_shard(NAMES, target, records, "code") is None
    made = upload_shard(draft, NAMES, target, records, {"rows": 3}, "code")
    assert find_uploaded_shard(NAMES, target, records, "code") == made
    assert made.stats == {"rows": 3}
    assert find_uploaded_shard(NAMES, target, records, "other code") is None
    assert find_uploaded_shard(NAMES[:1], target, records, "code") is None
    assert list(Store(store).entries()) == []
    remove_upload_records(records)
    assert find_uploaded_shard(NAMES, target, records, "code") is None
    remove_upload_records(records)


def test_two_publishers_may_remove_the_same_records_at_once(memory, draft, monkeypatch):
    store = Location.at(memory)
    target, records = store.child("corpus/z"), upload_records(store, "2" * 64)
    upload_shard(draft, NAMES, target, records, {}, "code")
    original = records.fs.expand_path

    def late(*words, **options):
        monkeypatch.undo()
        remove_upload_records(records)
        return original(*words, **options)

    monkeypatch.setattr(records.fs, "expand_path", late)
    remove_upload_records(records)
    assert records.fs.expand_path == original
    assert find_uploaded_shard(NAMES, target, records, "code") is None


@pytest.mark.parametrize("damage", [b"fi", b"other", None])
def test_an_uploaded_shard_that_changed_is_rebuilt(memory, draft, damage):
    store = Location.at(memory)
    target, records = store.child("corpus/y"), upload_records(store, "1" * 64)
    upload_shard(draft, NAMES, target, records, {}, "code")
    if damage is None:
        target.fs.rm_file(target.path("data/a"))
    else:
        target.fs.pipe_file(target.path("data/a"), damage)
    assert find_uploaded_shard(NAMES, target, records, "code") is None
