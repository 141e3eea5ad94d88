"""Artifacts between stores: local, S3 and plain HTTP; what was tampered with never gets in."""

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
from gsx.storage.sharing import push_pull as transfer
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
    """The address of a plain HTTP server of ``tmp_path``, without ranges or listings we rely on."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def nothing_visible(store):
    assert list(store.entries()) == []


def test_an_artifact_moves_between_local_stores_with_every_byte(ours, theirs):
    made = blob(theirs)
    found, there = pull(made.location, ours)
    assert not there
    assert contents(found.location.local) == contents(made.location.local)
    assert found.location.url == ours.folder("blob", made.key).url
    assert verify_artifact(found.location, store=ours).problems == ()
    assert pull(made.location, ours)[1] is True
    assert not list((ours.location.local / ".transfers").iterdir())


def test_another_content_of_a_key_becomes_a_new_generation(ours, theirs):
    blob(ours)
    other = blob(theirs, {"x": b"1"})
    found, there = pull(other.location, ours)
    assert (there, found.generation) == (False, 2)
    assert pull(other.location, ours) == (found, True)


def test_a_corpus_comes_over_plain_http(ours, theirs, web):
    made = motif(theirs)
    url = f"{web}/theirs/corpus/{made.key[:32]}"
    said = gsx("pull", url, "--store", ours.location.url, "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert (told["digest"], told["reused"]) == (made.manifest.digest, False)
    assert contents(ours.find("corpus", made.key).location.local) == contents(made.location.local)
    by_key = gsx("pull", made.key, "--from", f"{web}/theirs", "--store", ours.location.url)
    assert "already there" in by_key.out


def test_a_key_over_http_must_be_typed_out(ours, web):
    said = gsx("pull", "abcd", "--from", web, "--store", ours.location.url)
    assert said.code == 2
    assert "type at least 32 digits of the key" in said.err


def test_a_missing_address_is_no_artifact(ours, web):
    said = gsx("pull", f"{web}/nowhere", "--store", ours.location.url)
    assert said.code == 3
    assert "is not an artifact: it has no manifest.json" in said.err


def test_a_corpus_goes_to_s3_and_comes_back(ours, theirs, s3):
    made = motif(theirs)
    said = gsx("push", made.key[:12], s3, "--store", theirs.location.url)
    assert said.code == 0, said.err
    assert "already there" in gsx("push", made.key[:12], s3, "--store", theirs.location.url).out
    back = gsx("pull", made.key[:12], "--from", s3, "--store", ours.location.url)
    assert back.code == 0, back.err
    assert contents(ours.find("corpus", made.key).location.local) == contents(made.location.local)


def test_a_push_that_was_stopped_goes_on_and_is_invisible_until_then(theirs, s3, monkeypatch):
    from gsx.storage.artifacts import publish_remote as remote

    made = motif(theirs)
    there = Store.at(s3)
    create, done = remote.create_file, []

    def stopped(target, path, source):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(path)
        return create(target, path, source)

    monkeypatch.setattr(remote, "create_file", stopped)
    with pytest.raises(KeyboardInterrupt):
        push(made, there)
    nothing_visible(there)
    monkeypatch.setattr(remote, "create_file", create)
    found, before = push(made, there)
    assert before is False
    assert verify_artifact(found.location, store=there).problems == ()


def test_what_somebody_else_left_half_done_is_never_mixed_in(theirs, s3):
    made = motif(theirs)
    there = Store.at(s3)
    target = there.folder("corpus", made.key)
    name = next(iter(made.manifest.files))
    target.fs.pipe_file(target.path(name), b"x" * made.manifest.files[name].size)
    with pytest.raises(StoreError, match="was uploaded by another builder and has different content"):
        push(made, there)
    nothing_visible(there)


def test_a_pull_that_was_stopped_keeps_finished_files(ours, theirs, monkeypatch):
    made = blob(theirs)
    chunks, read = transfer._chunks, []

    def stopped(source, name, size):
        if name == "notes.json":
            raise KeyboardInterrupt
        return chunks(source, name, size)

    monkeypatch.setattr(transfer, "_chunks", stopped)
    with pytest.raises(KeyboardInterrupt):
        pull(made.location, ours)
    nothing_visible(ours)
    (left,) = find_garbage(ours)
    assert left.what == "unfinished transfer"

    def watched(source, name, size):
        read.append(name)
        return chunks(source, name, size)

    monkeypatch.setattr(transfer, "_chunks", watched)
    pull(made.location, ours)
    assert read == ["notes.json"]
    assert list(find_garbage(ours)) == []


def test_an_unfinished_transfer_can_be_thrown_away(ours):
    (ours.location.local / ".transfers" / ("0" * 32)).mkdir(parents=True)
    (left,) = find_garbage(ours)
    assert remove_garbage(ours, left)
    assert list(find_garbage(ours)) == []


def test_kept_files_that_changed_meanwhile_are_read_again(ours, theirs):
    made = blob(theirs)
    kept = ours.location.local / ".transfers" / made.manifest.digest[:32] / "data"
    kept.mkdir(parents=True)
    (kept / "a.bin").write_bytes(b"FIRST")
    (kept / "stranger").write_bytes(b"!")
    (kept / "link").symlink_to("/etc/hostname")
    found, _ = pull(made.location, ours)
    assert contents(found.location.local) == contents(made.location.local)


def spoiled(made, tmp_path, change):
    given = shutil.copytree(made.location.local, tmp_path / "given")
    for path in given.rglob("*"):
        path.chmod(0o755)
    change(given)
    return Location.at(given)


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
    (given / MANIFEST).write_text(json.dumps({**document, "schema": 2}))


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
        (link, r"data/a\.bin is a link"),
        (half_uploaded, r"is not an artifact: it has no manifest\.json"),
        (newer, r"has schema version 2; this gsx reads version 1"),
        (escaping, r"Paths must stay inside the artifact"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_becomes_visible(
    ours, theirs, tmp_path, change, words
):
    place = spoiled(blob(theirs), tmp_path, change)
    with pytest.raises(ArtifactError, match=words):
        pull(place, ours)
    nothing_visible(ours)


def test_a_damaged_artifact_is_not_pushed(theirs, tmp_path):
    made = blob(theirs)
    path = made.location.local / "data/a.bin"
    path.chmod(0o644)
    path.write_bytes(b"FIRST")
    target = Store.at("memory://pushed-damaged")
    with pytest.raises(ArtifactError, match="is damaged"):
        push(made, target)
    nothing_visible(target)


def test_an_artifact_that_does_not_fit_is_refused_before_it_is_read(ours, theirs, monkeypatch):
    made = blob(theirs)
    with pytest.raises(ArtifactError, match=r"the artifact has 14 bytes, above the limit of 10"):
        pull(made.location, ours, max_bytes=10)
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreError, match=r"no space left on .*: the artifact needs 14 bytes"):
        pull(made.location, ours)
    nothing_visible(ours)


def test_a_disk_that_fills_up_leaves_nothing_visible(ours, theirs, monkeypatch):
    made = blob(theirs)

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer, "fsync_file", full)
    with pytest.raises(StoreError, match=r"no space left on .*Nothing became visible"):
        pull(made.location, ours)
    nothing_visible(ours)


def test_lineage_comes_along_where_it_is_asked_for(ours, theirs, tmp_path):
    source = blob(theirs)
    child = blob(theirs, {"y": b"2"}, parents=(parent_of(source),), stage="child")
    said = gsx("pull", child.location.url, "--with-lineage", "--store", ours.location.url, "--json")
    assert [row["key"] for row in json.loads(said.out)["artifacts"]] == [source.key, child.key]
    pushed = gsx("push", child.key, tmp_path / "third", "--with-lineage", "--store", ours.location.url)
    assert pushed.out.count("in 0.") == 2


def test_remote_stores_are_pulled_into_local_ones_first(theirs):
    made = blob(theirs)
    with pytest.raises(UsageError, match="is remote. Pull into a local store"):
        pull(made.location, Store.at("memory://somewhere"))


def test_a_key_without_its_store_is_explained(ours):
    said = gsx("pull", "0123456789ab", "--store", ours.location.url)
    assert (said.code, said.err) == (
        2,
        "Error: `0123456789ab` is no directory and no URL. For a key, name its store: "
        "`gsx pull 0123456789ab --from STORE`.\n",
    )
