"""Tags: names of artifacts in local and remote stores."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.store import Store
from gsx.storage.artifacts.tags import (
    check_tag_name,
    is_tag_name,
    read_tag,
    read_tags,
    remove_tag,
    tag_names,
    tag_of,
    write_tag,
)
from gsx.storage.gc import find_garbage, list_artifacts, remove_artifacts, remove_garbage
from tests.support.artifacts import blob
from tests.support.remote_stores import ignore_unclosed_sessions


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, tmp_path):
    if request.param == "local":
        return Store.at(tmp_path / "store")
    return Store.at(request.getfixturevalue(request.param))


@pytest.fixture
def local(tmp_path):
    return Store.at(tmp_path / "store")


def tag(store, name, artifact, **options):
    return write_tag(store.location, name, tag_of(artifact.manifest), **options)


@ignore_unclosed_sessions
def test_a_tag_is_accepted_instead_of_a_key(store):
    artifact = blob(store)
    tag(store, "best-one", artifact)
    assert store.resolve("best-one").manifest == artifact.manifest
    assert store.resolve("best-one", kind="blob").key == artifact.key
    assert list(read_tags(store.location)) == ["best-one"]
    with pytest.raises(ArtifactError, match="the tag `best-one` is a blob, not a corpus"):
        store.resolve("best-one", kind="corpus")


@ignore_unclosed_sessions
def test_a_tag_is_moved_only_with_replace(store):
    one, two = blob(store), blob(store, config={"size": 2})
    assert tag(store, "best", one) is None
    assert tag(store, "best", one) is None
    with pytest.raises(UsageError, match=rf"`best` is already a tag of blob {one.key[:12]}\."):
        tag(store, "best", two)
    assert store.resolve("best").key == one.key
    assert tag(store, "best", two, replace=True).key == one.key
    assert store.resolve("best").key == two.key


@ignore_unclosed_sessions
def test_a_removed_tag_is_unknown(store):
    artifact = blob(store)
    tag(store, "old", artifact)
    remove_tag(store.location, "old")
    assert tag_names(store.location) == []
    with pytest.raises(ArtifactError, match="no artifact `old`"):
        store.resolve("old")
    with pytest.raises(UsageError, match="no tag `old`"):
        remove_tag(store.location, "old")


def test_a_tag_keeps_its_content_when_the_key_is_built_again(local):
    old = blob(local, {"x": b"1"})
    tag(local, "kept", old)
    blob(local, {"x": b"2"}, force=True)
    assert local.resolve("kept").manifest.digest == old.manifest.digest
    assert list(find_garbage(local)) == []


def test_only_one_of_several_writers_sets_a_new_tag(local):
    artifacts = [blob(local, config={"size": size}) for size in range(8)]

    def attempt(artifact):
        try:
            tag(local, "race", artifact)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, artifacts)) == 1
    assert tag_names(local.location) == ["race"]
    assert [path.name for path in (local.location.local / ".tags").iterdir()] == ["race.json"]


@pytest.mark.parametrize("name", ["a-b_c9", "g", "x" * 64, "model-1"])
def test_valid_names(name):
    check_tag_name(name)
    assert is_tag_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "face", "beef0", "Best", "1st", "a.b", "a/b", "..", ".x", "-x", "a b", "x" * 65, "ä",
     "con", "nul", "a\n", "a\x00"],
)  # fmt: skip
def test_invalid_names(local, name):
    assert not is_tag_name(name)
    with pytest.raises(UsageError, match="cannot be a tag"):
        tag(local, name, blob(local))
    with pytest.raises(UsageError, match="cannot be a tag"):
        remove_tag(local.location, name)
    assert read_tag(local.location, name) is None


def test_a_directory_with_the_name_of_a_tag_is_ambiguous(local, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, two = blob(local), blob(local, {"x": b"2"}, config={"size": 2})
    shutil.copytree(one.location.local, "thing")
    tag(local, "thing", two)
    with pytest.raises(UsageError, match=rf"is a directory, and a tag of blob {two.key[:12]}"):
        local.resolve("thing")
    assert local.resolve("./thing").key == one.key
    tag(local, "thing", one, replace=True)
    assert local.resolve("thing").key == one.key


def test_a_similar_tag_is_suggested(local):
    tag(local, "baseline", blob(local))
    with pytest.raises(ArtifactError, match=r"Did you mean the tag `baseline`\?"):
        local.resolve("baselin")


def test_tags_of_removed_artifacts_are_garbage(local):
    one, two = blob(local), blob(local, config={"size": 2})
    tag(local, "one", one)
    tag(local, "two", two)
    chosen = [artifact for _, artifact in list_artifacts(local, ["one"], with_descendants=False)]
    remove_artifacts(local, chosen)
    assert tag_names(local.location) == ["two"]
    shutil.rmtree(two.location.local)
    with pytest.raises(ArtifactError, match=r"which is not in .* any more"):
        local.resolve("two")
    (garbage,) = find_garbage(local)
    assert garbage.what == "tag of a missing artifact"
    assert remove_garbage(local, garbage)
    assert tag_names(local.location) == []


def hostile(local, data):
    folder = local.location.local / ".tags"
    folder.mkdir(exist_ok=True)
    (folder / "wrong.json").write_bytes(data)


GOOD = {"kind": "blob", "key": "0" * 64, "digest": "1" * 64, "date": "2026-01-01"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 3000,
        msgspec.json.encode({**GOOD, "more": 1}),
        msgspec.json.encode({**GOOD, "kind": "../blob"}),
        msgspec.json.encode({**GOOD, "key": "../../etc"}),
        msgspec.json.encode({**GOOD, "digest": 1}),
    ],
)
def test_an_invalid_tag_is_refused(local, data):
    blob(local)
    hostile(local, data)
    with pytest.raises(StoreError, match=re.escape("wrong.json")):
        local.resolve("wrong")
    remove_tag(local.location, "wrong")
    assert tag_names(local.location) == []


def test_a_large_tag_is_not_read(local):
    blob(local)
    hostile(local, b" " * 5000)
    with pytest.raises(ArtifactError, match="is larger than the limit of 4,096 bytes"):
        local.resolve("wrong")


def test_links_are_not_followed(local, tmp_path):
    artifact = blob(local)
    (tmp_path / "elsewhere").mkdir()
    (local.location.local / ".tags").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="symbolic link"):
        local.resolve("wrong")
    with pytest.raises((ArtifactError, StoreError)):
        tag(local, "wrong", artifact)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_foreign_files_are_no_tags(local):
    tag(local, "mine", blob(local))
    folder = local.location.local / ".tags"
    for name in ("README", "A.json", "face.json", ".x.json", "deep"):
        (folder / name).mkdir() if name == "deep" else (folder / name).write_text("{}")
    assert tag_names(local.location) == ["mine"]
