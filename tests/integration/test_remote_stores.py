"""Remote stores: in memory, and on a local S3 server."""

import contextlib
import json

import pytest

import gsx as package
from gsx.errors import ArtifactError, StageError, StoreError
from gsx.storage.artifacts import publish_remote
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.publish import build_artifact, draft_folder
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import FILES, blob, gsx, identity, motif, parent_of, write_files
from tests.support.remote_stores import ACCESS, SECRET, ignore_unclosed_sessions, list_files

pytestmark = ignore_unclosed_sessions


@pytest.fixture(params=["memory", "s3"])
def url(request):
    """Return the URL of an empty remote store of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def store(url):
    return Store.at(url)


@contextlib.contextmanager
def other_machine(tmp_path, monkeypatch):
    """Run the block with another cache, as on another machine."""
    with monkeypatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path / "cache-of-another-machine"))
        yield


def forbidden(draft):
    raise AssertionError("produce was called though the artifact is there")


# --- publishing -----------------------------------------------------------------------------------


def test_an_artifact_is_published_completely_and_reused(store):
    built = build_artifact(store, identity(), write_files())
    assert built.reused is False
    folder = f"blob/{identity().key[:32]}"
    assert list_files(store) == sorted(
        f"{folder}/{name}" for name in [*FILES, MANIFEST, "run.json"]
    )
    rebuilt = build_artifact(store, identity(), forbidden)
    assert rebuilt.reused is True
    assert rebuilt.artifact == built.artifact
    assert built.artifact.location.read_bytes("data/a.bin", limit=100) == b"first"


def test_another_machine_finds_the_artifact(store, tmp_path, monkeypatch):
    artifact = blob(store)
    with other_machine(tmp_path, monkeypatch):
        assert (
            build_artifact(Store.at(store.location.url), identity(), forbidden).artifact == artifact
        )


def test_nothing_is_left_in_the_cache_after_publishing(store):
    blob(store)
    assert list(draft_folder(store).iterdir()) == []


def test_force_makes_a_new_generation(store):
    first = blob(store)
    second = blob(store, {"x": b"1"}, force=True)
    assert (first.generation, second.generation) == (1, 2)
    assert store.find("blob", first.key) == second
    assert store.resolve(f"{first.key[:12]}.g1") == first


def test_a_generation_number_is_never_reused_while_a_later_one_exists(memory):
    store = Store.at(memory)
    first = blob(store)
    blob(store, force=True)
    assert gsx("gc", f"{first.key}.g1", "--delete", "--store", memory).code == 0
    third = blob(store, {"x": b"1"}, force=True)
    assert third.generation == 3
    assert store.find("blob", third.key) == third


def test_a_failing_stage_uploads_nothing_and_resumes_next_time(store):
    calls = []

    def produce(draft, *, fail):
        def write(path):
            calls.append(path)
            path.write_bytes(b"long work")

        draft.write("part", write)
        if fail:
            raise StageError("stopped")
        return write_files()(draft)

    with pytest.raises(StageError):
        build_artifact(store, identity(), lambda draft: produce(draft, fail=True))
    assert list_files(store) == []
    build_artifact(store, identity(), lambda draft: produce(draft, fail=False))
    assert len(calls) == 1


def test_the_second_of_two_publishers_reuses_the_first_artifact(store, tmp_path, monkeypatch):
    others = []

    def slow(draft):
        with other_machine(tmp_path, monkeypatch):
            others.append(build_artifact(store, identity(), write_files()))
        return write_files()(draft)

    mine = build_artifact(store, identity(), slow)
    assert others[0].reused is False
    assert mine.reused is True
    assert mine.artifact == others[0].artifact


def test_files_written_after_a_listing_are_visible(s3):
    import boto3

    location = Location.at(s3)
    client, (bucket, prefix) = boto3.client("s3"), s3.removeprefix("s3://").split("/", 1)
    client.put_object(Bucket=bucket, Key=f"{prefix}/one", Body=b"1")
    assert location.sizes() == {"one": 1}
    client.put_object(Bucket=bucket, Key=f"{prefix}/two", Body=b"22")
    assert location.exists("two")
    assert location.read_bytes("two", limit=9) == b"22"


def test_the_first_publish_of_a_key_wins_even_if_the_bytes_differ(store, tmp_path, monkeypatch):
    others = []

    def slow(draft):
        with other_machine(tmp_path, monkeypatch):
            others.append(blob(store, {"data/a.bin": b"trained on another machine"}))
        return write_files()(draft)

    mine = build_artifact(store, identity(), slow)
    assert mine.reused is True
    assert mine.artifact == others[0]
    assert verify_artifact(mine.artifact.location).problems == ()


def test_the_first_manifest_wins(store, tmp_path, monkeypatch):
    others = []
    original = publish_remote.create_file

    def create(target, path, source):
        if path == MANIFEST and not others:
            others.append(None)
            with other_machine(tmp_path, monkeypatch):
                others.append(build_artifact(store, identity(), write_files()))
        return original(target, path, source)

    monkeypatch.setattr(publish_remote, "create_file", create)
    mine = build_artifact(store, identity(), write_files())
    assert others[1].reused is False
    assert mine.reused is True
    assert verify_artifact(mine.artifact.location).problems == ()


def test_files_of_an_interrupted_publisher_are_invisible_and_reused(store, monkeypatch):
    uploaded = []
    original = publish_remote.create_file

    def die_after_two(target, path, source):
        if len(uploaded) == 2:
            raise KeyboardInterrupt
        uploaded.append(path)
        return original(target, path, source)

    with monkeypatch.context() as patch:
        patch.setattr(publish_remote, "create_file", die_after_two)
        with pytest.raises(KeyboardInterrupt):
            build_artifact(store, identity(), write_files())
    assert len(list_files(store)) == 2
    assert list(store.entries()) == []

    def count(target, path, source):
        uploaded.append(path)
        return original(target, path, source)

    monkeypatch.setattr(publish_remote, "create_file", count)
    built = build_artifact(store, identity(), write_files())
    assert built.reused is False
    assert len(uploaded) == len(set(uploaded)) == len(FILES) + 1
    assert verify_artifact(built.artifact.location).problems == ()


def test_leftover_files_with_different_content_are_never_reused(store):
    target = store.folder("blob", identity().key)
    target.fs.pipe_file(target.path("data/b.bin"), b"by another builder")
    with pytest.raises(StoreError) as error:
        build_artifact(store, identity(), write_files())
    assert str(error.value) == (
        f"{target.url}/data/b.bin was uploaded by another builder and has different content.\n"
        "Wait for that builder to finish, or remove the unfinished prefix, then run the "
        "command again."
    )
    assert list(store.entries()) == []
    target.fs.rm(target.root, recursive=True)
    assert build_artifact(store, identity(), write_files()).reused is False


def test_the_probe_is_removed(store):
    publish_remote.require_create_only(store.location)
    assert list_files(store) == []


def test_a_store_that_ignores_create_only_is_refused_before_any_work(faulty_stores):
    store = Store.at("careless://bucket/prefix")
    with pytest.raises(StoreError) as error:
        build_artifact(store, identity(), forbidden)
    assert str(error.value) == (
        "careless://bucket/prefix ignores create-only writes, so two builders could overwrite "
        "each other.\nBuild into a local store and copy the finished artifact there."
    )
    assert list_files(store) == []


def test_missing_credentials_are_reported(faulty_stores):
    result = gsx("ls", "--store", "locked://bucket")
    assert result.code == 3
    assert result.err == (
        "Error: cannot access locked://bucket: NoCredentialsError: Unable to locate credentials\n"
        "  Check the URL, the network and the credentials in your environment.\n"
    )


def test_denied_writes_are_reported_before_any_work(faulty_stores):
    with pytest.raises(StoreError, match="cannot access frozen://bucket: PermissionError: Access"):
        build_artifact(Store.at("frozen://bucket"), identity(), forbidden)


def test_a_bucket_that_does_not_exist_is_named(s3):
    result = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", "s3://no-such-bucket/x")
    assert result.code == 3
    assert result.err == (
        "Error: s3://no-such-bucket/x does not exist: The specified bucket does not exist. "
        "Create it first.\n"
    )


# --- reading --------------------------------------------------------------------------------------


def test_a_remote_corpus_is_read_and_streamed(url):
    artifact = motif(Store.at(url))
    corpus = package.open(artifact.key[:10], store=url)
    assert dict(corpus.splits) == {
        "train": 18, "id_val": 3, "id_test": 3, "ood_val": 3, "ood_test": 3,
    }  # fmt: skip
    batches = list(corpus.loader(8, split="train", cache="never"))
    assert [batch.num_graphs for batch in batches] == [8, 8, 2]
    assert corpus[0].num_nodes == batches[0][0].num_nodes
    reopened = package.open(artifact.location.url)
    assert reopened.table().equals(corpus.table())


def test_a_remote_corpus_equals_a_local_one(url, tmp_path):
    local, remote = motif(Store.at(tmp_path / "store")), motif(Store.at(url))
    assert remote.manifest == local.manifest
    tables = [package.open(artifact.location.url).table() for artifact in (local, remote)]
    assert tables[0].equals(tables[1])


def test_zarr_shards_are_read_from_memory(memory):
    artifact = motif(Store.at(memory), options='formats = ["zarr"]')
    corpus = package.open(artifact.location.url)
    assert sum(batch.num_graphs for batch in corpus.loader(8, cache="never")) == 30


@pytest.mark.slow
def test_zarr_shards_are_read_from_s3(s3):
    artifact = motif(Store.at(s3), num_graphs=10, options='formats = ["zarr"]')
    assert len(package.open(artifact.location.url).table(split="train")) == 6


def test_verify_reads_every_byte_of_a_remote_artifact(store):
    artifact = motif(store)
    result = gsx("verify", artifact.key, "--store", store.location.url)
    assert (result.code, result.out) == (
        0,
        f"ok       {artifact.location.url}  7 files, 30 graphs\n",
    )
    path = "data/train-00000-of-00001.parquet"
    data = bytearray(artifact.location.read_bytes(path, limit=1 << 20))
    data[len(data) // 2] ^= 1
    artifact.location.fs.pipe_file(artifact.location.path(path), bytes(data))
    result = gsx("verify", artifact.key, "--store", store.location.url)
    assert result.code == 3
    assert f"{path} does not match the SHA-256 in the manifest" in result.out


@pytest.mark.parametrize("data", [b"fir", None])
def test_a_remote_artifact_with_a_truncated_or_missing_file_does_not_open(store, data):
    artifact = blob(store)
    if data is None:
        artifact.location.fs.rm_file(artifact.location.path("data/a.bin"))
    else:
        artifact.location.fs.pipe_file(artifact.location.path("data/a.bin"), data)
    with pytest.raises(ArtifactError, match=r"data/a\.bin (is missing|has 3 bytes)"):
        store.find("blob", artifact.key)


def test_the_commands_work_on_a_remote_store(store):
    parent = blob(store)
    child = blob(store, kind="child", stage="child", parents=(parent_of(parent),))
    where = ("--store", store.location.url)
    rows = json.loads(gsx("ls", "--json", *where).out)["artifacts"]
    assert [row["key"] for row in rows] == [parent.key, child.key]
    assert rows[0]["path"] == f"{store.location.url}/blob/{parent.key[:32]}"
    assert json.loads(gsx("show", child.key[:8], "--json", *where).out)["key"] == child.key
    latest = gsx("show", "--kind", "child", "--latest", "--json", *where)
    assert json.loads(latest.out)["key"] == child.key
    steps = json.loads(gsx("lineage", child.key, "--json", *where).out)["lineage"]
    assert [(step["key"], step["same_content"]) for step in steps] == [
        (child.key, True),
        (parent.key, True),
    ]


def test_a_remote_artifact_is_removed_with_its_descendants(store):
    parent = blob(store)
    blob(store, kind="child", stage="child", parents=(parent_of(parent),))
    where = ("--store", store.location.url)
    refused = gsx("gc", parent.key, "--delete", *where)
    assert refused.code == 2
    assert "Add `--with-descendants` to remove both." in refused.err
    assert gsx("gc", parent.key, "--with-descendants", "--delete", *where).code == 0
    assert list_files(store) == []


def test_credentials_are_written_nowhere(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "cache"))
    store = Store.at(s3)
    result = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", s3, "--json")
    assert result.code == 0
    texts = [result.out.encode(), result.err.encode()]
    texts += [store.location.read_bytes(path, limit=1 << 20) for path in list_files(store)]
    texts += [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(texts) > 8
    assert not any(word.encode() in text for text in texts for word in (ACCESS, SECRET))
