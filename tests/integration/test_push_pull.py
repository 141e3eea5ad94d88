"""Push and pull between local, S3 and HTTP stores; manipulated artifacts are rejected."""

import errno
import functools
import http.server
import json
import shutil
import threading

import pytest

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from gsx.storage.gc import find_garbage, remove_garbage
from gsx.storage.sharing import push_pull
from gsx.storage.sharing.push_pull import pull, push
from tests.support.artifacts import blob, contents, gsx, motif, parent_of
from tests.support.remote_stores import ignore_unclosed_sessions

pytestmark = ignore_unclosed_sessions


@pytest.fixture
def ours(tmp_path):
    return Store.at(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path):
    return Store.at(tmp_path / "theirs")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture
def web(tmp_path):
    """Yield the URL of a plain HTTP server of ``tmp_path``, without range requests or listings."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def nothing_visible(store):
    assert list(store.entries()) == []


def test_a_pull_between_local_stores_copies_every_byte(ours, theirs):
    artifact = blob(theirs)
    pulled, existed = pull(artifact.location, ours)
    assert not existed
    assert contents(pulled.location.local) == contents(artifact.location.local)
    assert pulled.location.url == ours.folder("blob", artifact.key).url
    assert verify_artifact(pulled.location, store=ours).problems == ()
    assert pull(artifact.location, ours)[1] is True
    assert not list((ours.location.local / ".transfers").iterdir())


def test_different_content_of_a_key_becomes_a_new_generation(ours, theirs):
    blob(ours)
    other = blob(theirs, {"x": b"1"})
    pulled, existed = pull(other.location, ours)
    assert (existed, pulled.generation) == (False, 2)
    assert pull(other.location, ours) == (pulled, True)


def test_a_corpus_is_pulled_over_plain_http(ours, theirs, web):
    artifact = motif(theirs)
    url = f"{web}/theirs/corpus/{artifact.key[:32]}"
    result = gsx("pull", url, "--store", ours.location.url, "--json")
    assert result.code == 0, result.err
    output = json.loads(result.out)
    assert (output["digest"], output["reused"]) == (artifact.manifest.digest, False)
    assert contents(ours.resolve(artifact.key).location.local) == contents(artifact.location.local)
    by_key = gsx("pull", artifact.key, "--from", f"{web}/theirs", "--store", ours.location.url)
    assert "already there" in by_key.out


def test_a_key_over_http_must_be_typed_out(ours, web):
    result = gsx("pull", "abcd", "--from", web, "--store", ours.location.url)
    assert result.code == 2
    assert "give at least the first 32 digits of the key" in result.err


def test_a_missing_url_is_not_an_artifact(ours, web):
    result = gsx("pull", f"{web}/nowhere", "--store", ours.location.url)
    assert result.code == 3
    assert "is not an artifact: it has no manifest.json" in result.err


def test_a_corpus_goes_to_s3_and_comes_back(ours, theirs, s3):
    artifact = motif(theirs)
    result = gsx("push", artifact.key[:12], s3, "--store", theirs.location.url)
    assert result.code == 0, result.err
    assert "already there" in gsx("push", artifact.key[:12], s3, "--store", theirs.location.url).out
    back = gsx("pull", artifact.key[:12], "--from", s3, "--store", ours.location.url)
    assert back.code == 0, back.err
    assert contents(ours.resolve(artifact.key).location.local) == contents(artifact.location.local)


def test_an_interrupted_push_resumes_and_is_invisible_until_then(theirs, s3, monkeypatch):
    from gsx.storage.artifacts import publish_remote as remote

    artifact = motif(theirs)
    there = Store.at(s3)
    create, done = remote.create_file, []

    def stopped(target, path, source):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(path)
        return create(target, path, source)

    monkeypatch.setattr(remote, "create_file", stopped)
    with pytest.raises(KeyboardInterrupt):
        push(artifact, there)
    nothing_visible(there)
    monkeypatch.setattr(remote, "create_file", create)
    actual, before = push(artifact, there)
    assert before is False
    assert verify_artifact(actual.location, store=there).problems == ()


def test_leftovers_of_another_builder_are_never_reused(theirs, s3):
    artifact = motif(theirs)
    there = Store.at(s3)
    target = there.folder("corpus", artifact.key)
    name = next(iter(artifact.manifest.files))
    target.fs.pipe_file(target.path(name), b"x" * artifact.manifest.files[name].size)
    with pytest.raises(
        StoreError, match="was uploaded by another builder and has different content"
    ):
        push(artifact, there)
    nothing_visible(there)


def test_an_interrupted_pull_keeps_finished_files(ours, theirs, monkeypatch):
    artifact = blob(theirs)
    chunks, read = push_pull._chunks, []

    def stopped(source, name, size):
        if name == "notes.json":
            raise KeyboardInterrupt
        return chunks(source, name, size)

    monkeypatch.setattr(push_pull, "_chunks", stopped)
    with pytest.raises(KeyboardInterrupt):
        pull(artifact.location, ours)
    nothing_visible(ours)
    (left,) = find_garbage(ours)
    assert left.what == "unfinished transfer"

    def watched(source, name, size):
        read.append(name)
        return chunks(source, name, size)

    monkeypatch.setattr(push_pull, "_chunks", watched)
    pull(artifact.location, ours)
    assert read == ["notes.json"]
    assert list(find_garbage(ours)) == []


def test_an_unfinished_transfer_can_be_removed(ours):
    (ours.location.local / ".transfers" / ("0" * 32)).mkdir(parents=True)
    (left,) = find_garbage(ours)
    assert remove_garbage(ours, left)
    assert list(find_garbage(ours)) == []


def test_downloaded_files_that_changed_are_downloaded_again(ours, theirs):
    artifact = blob(theirs)
    kept = ours.location.local / ".transfers" / artifact.manifest.digest[:32] / "data"
    kept.mkdir(parents=True)
    (kept / "a.bin").write_bytes(b"FIRST")
    (kept / "stranger").write_bytes(b"!")
    (kept / "link").symlink_to("/etc/hostname")
    pulled, _ = pull(artifact.location, ours)
    assert contents(pulled.location.local) == contents(artifact.location.local)


def spoiled(made, tmp_path, change):
    received = shutil.copytree(made.location.local, tmp_path / "given")
    for path in received.rglob("*"):
        path.chmod(0o755)
    change(received)
    return Location.at(received)


def wrong_bytes(given):
    (given / "data/a.bin").write_bytes(b"FIRST")


def too_long(given):
    (given / "data/a.bin").write_bytes(b"first" + b"!" * (3 << 20))


def too_short(given):
    (given / "data/a.bin").write_bytes(b"fir")


def missing(given):
    (given / "data/a.bin").unlink()


def link(given):
    (given / "data/a.bin").unlink()
    (given / "data/a.bin").symlink_to("b.bin")


def half_uploaded(given):
    (given / MANIFEST).unlink()


def newer(given):
    document = json.loads((given / MANIFEST).read_text())
    (given / MANIFEST).write_text(json.dumps({**document, "schema": 3}))


def escaping(given):
    text = (given / MANIFEST).read_text().replace("data/a.bin", "../../a.bin")
    (given / MANIFEST).write_text(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (wrong_bytes, r"data/a\.bin does not match the SHA-256 in the manifest"),
        (too_long, r"data/a\.bin is larger than the 5 bytes in the manifest"),
        (too_short, r"data/a\.bin ended after 3 of 5 bytes"),
        (missing, r"data/a\.bin is missing"),
        (link, r"data/a\.bin is a symbolic link"),
        (half_uploaded, r"is not an artifact: it has no manifest\.json"),
        (newer, r"has schema version 3; this gsx reads version 2"),
        (escaping, r"Paths must stay inside the artifact"),
    ],
)
def test_an_invalid_source_is_refused_and_nothing_is_published(
    ours, theirs, tmp_path, change, words
):
    place = spoiled(blob(theirs), tmp_path, change)
    with pytest.raises(ArtifactError, match=words):
        pull(place, ours)
    nothing_visible(ours)


def test_a_damaged_artifact_is_not_pushed(theirs, tmp_path):
    artifact = blob(theirs)
    path = artifact.location.local / "data/a.bin"
    path.chmod(0o644)
    path.write_bytes(b"FIRST")
    target = Store.at("memory://pushed-damaged")
    with pytest.raises(ArtifactError, match="is damaged"):
        push(artifact, target)
    nothing_visible(target)


def test_an_artifact_larger_than_the_limit_is_refused_before_the_transfer(
    ours, theirs, monkeypatch
):
    artifact = blob(theirs)
    with pytest.raises(ArtifactError, match=r"the artifact has 14 bytes, above the limit of 10"):
        pull(artifact.location, ours, max_bytes=10)
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(push_pull.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreError, match=r"no space left on .*: the artifact needs 14 bytes"):
        pull(artifact.location, ours)
    nothing_visible(ours)


def test_a_disk_that_fills_up_leaves_nothing_visible(ours, theirs, monkeypatch):
    artifact = blob(theirs)

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(push_pull, "fsync_file", full)
    with pytest.raises(StoreError, match=r"no space left on .*Nothing was published"):
        pull(artifact.location, ours)
    nothing_visible(ours)


def test_lineage_is_transferred_on_request(ours, theirs, tmp_path):
    source = blob(theirs)
    child = blob(theirs, {"y": b"2"}, parents=(parent_of(source),), stage="child")
    result = gsx(
        "pull", child.location.url, "--with-lineage", "--store", ours.location.url, "--json"
    )
    assert [row["key"] for row in json.loads(result.out)["artifacts"]] == [source.key, child.key]
    pushed = gsx(
        "push", child.key, tmp_path / "third", "--with-lineage", "--store", ours.location.url
    )
    assert pushed.out.count("in 0.") == 2


def test_remote_stores_are_pulled_into_local_ones_first(theirs):
    artifact = blob(theirs)
    with pytest.raises(UsageError, match=r"is remote\. Pull into a local store"):
        pull(artifact.location, Store.at("memory://somewhere"))


def test_a_key_without_its_store_is_explained(ours):
    result = gsx("pull", "0123456789ab", "--store", ours.location.url)
    assert (result.code, result.err) == (
        2,
        "Error: `0123456789ab` is neither a directory nor a URL. If it is a key, name its store: "
        "`gsx pull 0123456789ab --from STORE`.\n",
    )


def test_a_push_with_lineage_lists_only_its_own_artifacts(tmp_path, s3, monkeypatch):
    """The requests of an artifact do not depend on the number of artifacts in the store."""
    import s3fs

    ours, there = Store.at(tmp_path / "ours"), Store.at(s3)
    last, chain = None, []
    for size in range(6):
        parents = () if last is None else (parent_of(last),)
        last = blob(ours, config={"size": size}, parents=parents)
        chain.append(last.key)
    listed = []
    find = s3fs.S3FileSystem.find

    def counting(self, path, **options):
        found = find(self, path, **options)
        listed.append(len(found))
        return found

    monkeypatch.setattr(s3fs.S3FileSystem, "find", counting)
    assert gsx("push", last.key, s3, "--with-lineage", "--store", ours.location.url).code == 0
    assert [artifact.key for artifact in there.artifacts()] == sorted(chain)
    assert len(listed) <= 3 * len(chain)
    assert max(listed) == 0
    again = gsx("push", last.key, s3, "--with-lineage", "--store", ours.location.url)
    assert again.out.count("already there") == len(chain)
    assert max(listed) <= len(last.manifest.files) + 2
