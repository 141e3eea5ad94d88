"""Stores behind a URL: memory, and a real S3 protocol server on loopback."""

import contextlib
import gc
import json
import logging
import secrets
import warnings

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import gsx as package
from gsx.errors import ArtifactError, StageError, StoreError
from gsx.storage.artifacts import publish_remote as remote
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.publish import build, draft_folder
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import audit
from tests.support.artifacts import FILES, blob, gsx, identity, motif, parent_of, writes

# s3fs leaves its sessions to the garbage collector; they are not ours to close.
UNCLOSED = "Unclosed (client session|connector)"
pytestmark = pytest.mark.filterwarnings(f"ignore:{UNCLOSED}:ResourceWarning")
ACCESS, SECRET = "AKIATESTTESTTEST", "not-a-real-secret-0123456789"


@pytest.fixture(scope="module")
def server():
    """An S3 server on a free port of this machine."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3(server, monkeypatch):
    """The URL of an empty store in a bucket of its own."""
    import boto3
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    bucket = f"bucket-{secrets.token_hex(8)}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    yield f"s3://{bucket}/some/prefix"
    s3fs.S3FileSystem.clear_instance_cache()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNCLOSED, ResourceWarning)
        gc.collect()  # here, not in the middle of somebody else's test


@pytest.fixture
def memory():
    """The URL of an empty store in memory."""
    yield "memory://test-remote/some/prefix"
    with contextlib.suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/test-remote", recursive=True)


@pytest.fixture(params=["memory", "s3"])
def url(request):
    """The URL of an empty remote store, one kind after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def store(url):
    return Store.at(url)


@contextlib.contextmanager
def other_machine(tmp_path, monkeypatch):
    """Do something as another machine would: with a cache of its own."""
    with monkeypatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path / "cache-of-another-machine"))
        yield


def forbidden(draft):
    raise AssertionError("produce was called though the artifact is there")


def listed(store):
    """Return every path in the store."""
    store.place.fs.invalidate_cache()
    return sorted(
        path.removeprefix(store.place.root + "/") for path in store.place.fs.find(store.place.root)
    )


# --- publishing -----------------------------------------------------------------------------------


def test_an_artifact_is_published_whole_and_found_again(store):
    made = build(store, identity(), writes())
    assert made.reused is False
    folder = f"blob/{identity().key[:32]}"
    assert listed(store) == sorted(f"{folder}/{name}" for name in [*FILES, MANIFEST, "run.json"])
    again = build(store, identity(), forbidden)
    assert again.reused is True
    assert again.artifact == made.artifact
    assert made.artifact.place.read_bytes("data/a.bin", limit=100) == b"first"


def test_another_machine_finds_the_artifact(store, tmp_path, monkeypatch):
    made = blob(store)
    with other_machine(tmp_path, monkeypatch):
        assert build(Store.at(store.place.url), identity(), forbidden).artifact == made


def test_nothing_is_left_in_the_cache_after_publishing(store):
    blob(store)
    assert list(draft_folder(store).iterdir()) == []


def test_force_makes_a_new_generation(store):
    first = blob(store)
    second = blob(store, {"x": b"1"}, force=True)
    assert (first.generation, second.generation) == (1, 2)
    assert store.find("blob", first.key) == second
    assert store.resolve(f"{first.key[:12]}.g1") == first


def test_a_generation_never_takes_the_number_of_one_that_is_there(memory):
    store = Store.at(memory)
    first = blob(store)
    blob(store, force=True)
    assert gsx("gc", f"{first.key}.g1", "--delete", "--store", memory).code == 0
    third = blob(store, {"x": b"1"}, force=True)
    assert third.generation == 3
    assert store.find("blob", third.key) == third


def test_a_failing_stage_uploads_nothing_and_goes_on_next_time(store):
    calls = []

    def produce(draft, *, fail):
        def write(path):
            calls.append(path)
            path.write_bytes(b"long work")

        draft.write("part", write)
        if fail:
            raise StageError("stopped")
        return writes()(draft)

    with pytest.raises(StageError):
        build(store, identity(), lambda draft: produce(draft, fail=True))
    assert listed(store) == []
    build(store, identity(), lambda draft: produce(draft, fail=False))
    assert len(calls) == 1


def test_of_two_publishers_the_second_finds_what_the_first_made(store, tmp_path, monkeypatch):
    others = []

    def slow(draft):
        with other_machine(tmp_path, monkeypatch):
            others.append(build(store, identity(), writes()))
        return writes()(draft)

    mine = build(store, identity(), slow)
    assert others[0].reused is False
    assert mine.reused is True
    assert mine.artifact == others[0].artifact


def test_a_file_that_another_client_put_after_a_listing_is_seen(s3):
    import boto3

    place = Place.at(s3)
    client, (bucket, prefix) = boto3.client("s3"), s3.removeprefix("s3://").split("/", 1)
    client.put_object(Bucket=bucket, Key=f"{prefix}/one", Body=b"1")
    assert place.sizes() == {"one": 1}
    client.put_object(Bucket=bucket, Key=f"{prefix}/two", Body=b"22")
    assert place.exists("two")
    assert place.read_bytes("two", limit=9) == b"22"


def test_the_first_publish_of_a_key_wins_even_if_the_bytes_differ(store, tmp_path, monkeypatch):
    others = []

    def slow(draft):
        with other_machine(tmp_path, monkeypatch):
            others.append(blob(store, {"data/a.bin": b"trained on another machine"}))
        return writes()(draft)

    mine = build(store, identity(), slow)
    assert mine.reused is True
    assert mine.artifact == others[0]
    assert audit(mine.artifact.place).problems == ()


def test_whoever_puts_the_manifest_first_wins(store, tmp_path, monkeypatch):
    others = []
    original = remote.put_new

    def create(target, path, source):
        if path == MANIFEST and not others:
            others.append(None)
            with other_machine(tmp_path, monkeypatch):
                others.append(build(store, identity(), writes()))
        return original(target, path, source)

    monkeypatch.setattr(remote, "put_new", create)
    mine = build(store, identity(), writes())
    assert others[1].reused is False
    assert mine.reused is True
    assert audit(mine.artifact.place).problems == ()


def test_a_publisher_that_died_half_way_is_invisible_and_its_files_are_used(store, monkeypatch):
    uploaded = []
    original = remote.put_new

    def die_after_two(target, path, source):
        if len(uploaded) == 2:
            raise KeyboardInterrupt
        uploaded.append(path)
        return original(target, path, source)

    with monkeypatch.context() as patch:
        patch.setattr(remote, "put_new", die_after_two)
        with pytest.raises(KeyboardInterrupt):
            build(store, identity(), writes())
    assert len(listed(store)) == 2
    assert list(store.entries()) == []

    def count(target, path, source):
        uploaded.append(path)
        return original(target, path, source)

    monkeypatch.setattr(remote, "put_new", count)
    made = build(store, identity(), writes())
    assert made.reused is False
    assert len(uploaded) == len(set(uploaded)) == len(FILES) + 1
    assert audit(made.artifact.place).problems == ()


def test_a_leftover_with_other_bytes_is_never_mixed_in(store):
    target = store.folder("blob", identity().key)
    target.fs.pipe_file(target.path("data/b.bin"), b"by another builder")
    with pytest.raises(StoreError) as caught:
        build(store, identity(), writes())
    assert str(caught.value) == (
        f"{target.url}/data/b.bin was left there by another builder and has other bytes.\n"
        "Wait until that builder is done, or remove the unfinished prefix, and run again."
    )
    assert list(store.entries()) == []
    target.fs.rm(target.root, recursive=True)
    assert build(store, identity(), writes()).reused is False


def test_the_probe_is_removed(store):
    remote.require_create_only(store.place)
    assert listed(store) == []


class CarelessFileSystem(MemoryFileSystem):
    """Overwrites where it was asked to create, as some servers do."""

    protocol = "careless"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        return super().pipe_file(path, value, mode="overwrite", **kwargs)


class LockedFileSystem(MemoryFileSystem):
    """Cannot be used without credentials."""

    protocol = "locked"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def glob(self, path, **kwargs):
        from botocore.exceptions import NoCredentialsError

        raise NoCredentialsError


class FrozenFileSystem(MemoryFileSystem):
    """May be read but not written."""

    protocol = "frozen"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        raise PermissionError("Access Denied")


@pytest.fixture
def odd_stores():
    for one in (CarelessFileSystem, LockedFileSystem, FrozenFileSystem):
        fsspec.register_implementation(one.protocol, one, clobber=True)


def test_a_store_that_ignores_create_only_is_refused_before_any_work(odd_stores):
    store = Store.at("careless://bucket/prefix")
    with pytest.raises(StoreError) as caught:
        build(store, identity(), forbidden)
    assert str(caught.value) == (
        "careless://bucket/prefix ignores create-only writes, so two builders could overwrite "
        "each other.\nBuild into a local store and copy the finished artifact there."
    )
    assert listed(store) == []


def test_missing_credentials_are_explained(odd_stores):
    said = gsx("ls", "--store", "locked://bucket")
    assert said.code == 3
    assert said.err == (
        "Error: cannot use locked://bucket: NoCredentialsError: Unable to locate credentials\n"
        "Check the URL, the network and the credentials in your environment.\n"
    )


def test_a_refused_write_is_explained_before_any_work(odd_stores):
    with pytest.raises(StoreError, match="cannot use frozen://bucket: PermissionError: Access"):
        build(Store.at("frozen://bucket"), identity(), forbidden)


def test_a_bucket_that_does_not_exist_is_named(s3):
    said = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", "s3://no-such-bucket/x")
    assert said.code == 3
    assert said.err == (
        "Error: s3://no-such-bucket/x does not exist: The specified bucket does not exist. "
        "Create it first.\n"
    )


# --- reading --------------------------------------------------------------------------------------


def test_a_remote_corpus_is_read_and_streamed(url):
    made = motif(Store.at(url))
    corpus = package.open(made.key[:10], store=url)
    assert dict(corpus.splits) == {
        "train": 18, "id_val": 3, "id_test": 3, "ood_val": 3, "ood_test": 3,
    }  # fmt: skip
    batches = list(corpus.loader(8, split="train", cache="never"))
    assert [batch.num_graphs for batch in batches] == [8, 8, 2]
    assert corpus[0].num_nodes == batches[0][0].num_nodes
    again = package.open(made.place.url)
    assert again.table().equals(corpus.table())


def test_a_remote_corpus_holds_what_a_local_one_holds(url, tmp_path):
    here, there = motif(Store.at(tmp_path / "store")), motif(Store.at(url))
    assert there.manifest == here.manifest
    assert package.open(there.place.url).table().equals(package.open(here.place.url).table())


def test_zarr_shards_are_read_from_memory(memory):
    made = motif(Store.at(memory), options='formats = ["zarr"]')
    corpus = package.open(made.place.url)
    assert sum(batch.num_graphs for batch in corpus.loader(8, cache="never")) == 30


@pytest.mark.slow
def test_zarr_shards_are_read_from_s3(s3):
    made = motif(Store.at(s3), num_graphs=10, options='formats = ["zarr"]')
    assert len(package.open(made.place.url).table(split="train")) == 6


def test_verify_reads_every_byte_of_a_remote_artifact(store):
    made = motif(store)
    said = gsx("verify", made.key, "--store", store.place.url)
    assert (said.code, said.out) == (0, f"ok       {made.place.url}  7 files, 30 graphs\n")
    path = "data/train-00000-of-00001.parquet"
    data = bytearray(made.place.read_bytes(path, limit=1 << 20))
    data[len(data) // 2] ^= 1
    made.place.fs.pipe_file(made.place.path(path), bytes(data))
    said = gsx("verify", made.key, "--store", store.place.url)
    assert said.code == 3
    assert f"{path} has other bytes than the manifest says (SHA-256)" in said.out


@pytest.mark.parametrize("data", [b"fir", None])
def test_a_remote_artifact_with_a_file_cut_or_missing_does_not_open(store, data):
    made = blob(store)
    if data is None:
        made.place.fs.rm_file(made.place.path("data/a.bin"))
    else:
        made.place.fs.pipe_file(made.place.path("data/a.bin"), data)
    with pytest.raises(ArtifactError, match=r"data/a\.bin (is missing|has 3 bytes)"):
        store.find("blob", made.key)


def test_the_commands_work_on_a_remote_store(store):
    parent = blob(store)
    child = blob(store, kind="child", stage="child", parents=(parent_of(parent),))
    where = ("--store", store.place.url)
    rows = json.loads(gsx("ls", "--json", *where).out)["artifacts"]
    assert [row["key"] for row in rows] == [parent.key, child.key]
    assert rows[0]["path"] == f"{store.place.url}/blob/{parent.key[:32]}"
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
    where = ("--store", store.place.url)
    refused = gsx("gc", parent.key, "--delete", *where)
    assert refused.code == 2
    assert "Add `--with-descendants` to remove both." in refused.err
    assert gsx("gc", parent.key, "--with-descendants", "--delete", *where).code == 0
    assert listed(store) == []


def test_credentials_are_written_nowhere(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_CACHE", str(tmp_path / "cache"))
    store = Store.at(s3)
    said = gsx("prepare", "motif-size", "--num-graphs", 30, "--store", s3, "--json")
    assert said.code == 0
    texts = [said.out.encode(), said.err.encode()]
    texts += [store.place.read_bytes(path, limit=1 << 20) for path in listed(store)]
    texts += [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(texts) > 8
    assert not any(word.encode() in text for text in texts for word in (ACCESS, SECRET))
