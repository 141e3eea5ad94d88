"""Garbage is listed, and removed only if it is neither needed nor in use."""

import itertools
import json
import shutil

import pytest
from filelock import FileLock

import gsx as package
from gsx.errors import ArtifactError, StageError, StoreError, UsageError
from gsx.storage import gc
from gsx.storage.artifacts.publish import build_artifact, draft_folder, lock_path
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.hot_cache import hot_cache_dir
from gsx.storage.gc import (
    find_garbage,
    list_artifacts,
    remove_artifacts,
    remove_garbage,
)
from tests.support.artifacts import blob, contents, gsx, identity, motif, parent_of


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def abandon(store, **changes):
    """Leave a draft behind, as an interrupted build does; return its folder."""

    def fail(draft):
        draft.write_bytes("part", b"12345")
        raise StageError("stopped")

    with pytest.raises(StageError):
        build_artifact(store, identity(**changes), fail)
    return draft_folder(store) / identity(**changes).key


def listed(store):
    return [(item.what, item.path) for item in find_garbage(store)]


def remove_all(store):
    return [remove_garbage(store, item) for item in list(find_garbage(store))]


def test_a_store_in_order_has_no_garbage(store):
    blob(store)
    assert listed(store) == []


def test_a_missing_store_has_no_garbage(store):
    assert listed(store) == []
    assert not store.location.local.exists()


def test_an_abandoned_draft_is_listed_with_its_size(store):
    draft = abandon(store)
    (item,) = find_garbage(store)
    assert (item.what, item.path) == ("abandoned draft", str(draft))
    assert item.bytes == sum(map(len, contents(draft).values()))


def test_an_abandoned_draft_is_removed(store):
    draft = abandon(store)
    kept = blob(store, config={"size": 2})
    assert remove_all(store) == [True]
    assert not draft.exists()
    assert store.find("blob", kept.key) == kept


def test_a_locked_draft_is_not_listed(store):
    draft = abandon(store)
    with FileLock(lock_path(draft)):
        assert listed(store) == []
    assert len(listed(store)) == 1


def test_a_draft_locked_after_listing_is_not_removed(store):
    draft = abandon(store)
    (item,) = find_garbage(store)
    before = contents(draft)
    with FileLock(lock_path(draft)):
        assert remove_garbage(store, item) is False
    assert contents(draft) == before


def test_listing_writes_nothing(store):
    draft = abandon(store)
    lock_path(draft).unlink()
    before = sorted(store.location.local.rglob("*"))
    listed(store)
    assert sorted(store.location.local.rglob("*")) == before


@pytest.mark.parametrize("folder", [".drafts", ".trash"])
def test_a_stray_file_or_link_among_drafts_is_removed_but_not_followed(store, tmp_path, folder):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("do not lose")
    blob(store)
    location = store.location.local / folder
    location.mkdir(exist_ok=True)
    (location / "link").symlink_to(precious)
    (location / "file").write_bytes(b"123")
    assert remove_all(store) == [True, True]
    assert list(location.iterdir()) == []
    assert (precious / "thesis.txt").exists()


def test_a_half_removed_artifact_is_removed(store):
    artifact = blob(store)
    (store.location.local / ".trash").mkdir()
    artifact.location.local.rename(store.location.local / ".trash" / "0123")
    assert [what for what, _ in listed(store)] == ["half-removed artifact"]
    remove_all(store)
    assert list((store.location.local / ".trash").iterdir()) == []


def test_superseded_generations_are_listed_but_not_the_newest(store):
    old = [blob(store, {"x": b"1"}), blob(store, {"x": b"2"}, force=True)]
    new = blob(store, {"x": b"3"}, force=True)
    assert listed(store) == [("superseded generation", a.location.root) for a in old]
    remove_all(store)
    assert list(store.artifacts()) == [new]


def test_a_superseded_generation_with_descendants_is_kept(store):
    old = blob(store, {"x": b"1"})
    blob(store, kind="child", stage="child", parents=(parent_of(old),))
    blob(store, {"x": b"2"}, force=True)
    assert listed(store) == []


def test_a_superseded_generation_equal_to_the_newest_is_listed(store):
    old = blob(store)
    blob(store, kind="child", stage="child", parents=(parent_of(old),))
    blob(store, force=True)
    assert listed(store) == [("superseded generation", old.location.root)]


def cached(store):
    """Publish a corpus and build its hot cache; return both."""
    artifact = motif(store)
    package.open(artifact.location.url).hot(build=True)
    return artifact, hot_cache_dir(artifact.manifest.digest)


def test_the_cache_of_an_existing_corpus_is_kept(store):
    cached(store)
    assert listed(store) == []


def test_the_cache_of_a_removed_corpus_is_removed(store):
    artifact, folder = cached(store)
    remove_artifacts(store, [artifact])
    assert listed(store) == [("cache of a missing corpus", str(folder))]
    remove_all(store)
    assert not folder.exists()


def test_the_cache_of_a_corpus_of_another_store_is_kept(store, tmp_path):
    other = Store.at(tmp_path / "other")
    artifact, folder = cached(other)
    assert listed(store) == []
    assert [path.suffix for path in folder.parent.iterdir() if path.is_file()].count(
        ".corpora"
    ) == 1
    remove_artifacts(other, [artifact])
    assert listed(store) == [("cache of a missing corpus", str(folder))]
    remove_all(store)
    assert not folder.exists()
    assert not folder.with_suffix(".corpora").exists()


@pytest.mark.parametrize("content", [b"[1]\n{\n", b"\xff", b'"a\\u0000b"\n', b""])
def test_a_damaged_record_of_corpora_counts_as_missing(store, content):
    artifact, folder = cached(store)
    folder.with_suffix(".corpora").write_bytes(content)
    assert listed(store) == []
    remove_artifacts(store, [artifact])
    assert listed(store) == [("cache of a missing corpus", str(folder))]


def test_a_cache_under_construction_is_not_listed(store):
    folder = hot_cache_dir("0" * 64)
    draft = folder.with_name(f".{folder.name}.4711")
    draft.mkdir(parents=True)
    with FileLock(folder.with_suffix(".lock")):
        assert listed(store) == []
    assert listed(store) == [("cache of a missing corpus", str(draft))]


def test_a_damaged_manifest_stops_the_search_because_lineage_is_unknown(store):
    artifact = blob(store)
    manifest = artifact.location.local / "manifest.json"
    manifest.unlink()
    manifest.write_text("{")
    result = gsx("gc", "--store", store.location.url)
    assert result.code == 3
    assert f"{manifest} is not a gsx manifest" in result.err


def family(store):
    """Publish a parent, its child and its grandchild."""
    parent = blob(store)
    child = blob(store, kind="child", stage="child", parents=(parent_of(parent),))
    grandchild = blob(store, kind="child", stage="other", parents=(parent_of(child),))
    return parent, child, grandchild


def test_an_artifact_with_descendants_is_not_removed_alone(store):
    parent, child, grandchild = family(store)
    with pytest.raises(UsageError) as error:
        list_artifacts(store, [parent.key], with_descendants=False)
    texts = [
        f"child {other.key[:12]} was built from blob {parent.key[:12]}. "
        "Add `--with-descendants` to remove both."
        for other in (child, grandchild)
    ]
    assert str(error.value) in texts


def test_an_artifact_is_removed_with_all_its_descendants(store):
    parent, child, grandchild = family(store)
    other = blob(store, config={"size": 2})
    chosen = list_artifacts(store, [parent.key], with_descendants=True)
    assert {artifact.key for _, artifact in chosen} == {parent.key, child.key, grandchild.key}
    remove_artifacts(store, [artifact for _, artifact in chosen])
    assert list(store.artifacts()) == [other]


def test_listing_all_descendants_needs_no_flag(store):
    family_ = family(store)
    chosen = list_artifacts(store, [one.key for one in family_], with_descendants=False)
    assert len(chosen) == 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_interrupted_removal_leaves_no_child_without_its_parent(store, monkeypatch, order):
    names = [family(store)[number].key for number in order]
    original, removed = gc._remove_artifact, []

    def stop_after_one(place, path):
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        return original(place, path)

    monkeypatch.setattr(gc, "_remove_artifact", stop_after_one)
    chosen = list_artifacts(store, names, with_descendants=True)
    with pytest.raises(KeyboardInterrupt):
        remove_artifacts(store, [artifact for _, artifact in chosen])
    left = {artifact.key for artifact in store.artifacts()}
    assert len(left) == 2
    assert all(p.key in left for a in store.artifacts() for p in a.manifest.parents)


def test_a_damaged_artifact_can_be_removed(store):
    artifact = blob(store)
    (artifact.location.local / "data/a.bin").unlink()
    result = gsx("gc", artifact.key[:12], "--delete", "--store", store.location.url)
    assert result.code == 0
    assert list(store.entries()) == []


def test_an_artifact_outside_the_store_is_not_removed(store, tmp_path):
    received = shutil.copytree(blob(store).location.local, tmp_path / "given")
    result = gsx("gc", received, "--delete", "--store", store.location.url)
    assert result.code == 3
    assert f"{received} is not inside the store {store.location.url}; not removed." in result.err
    assert (received / "manifest.json").exists()


def test_an_artifact_of_another_remote_store_is_not_removed():
    theirs, ours = Store.at("memory://theirs"), Store.at("memory://ours")
    artifact = blob(theirs)
    with pytest.raises(StoreError, match=r"is not inside the store memory://ours; not removed"):
        remove_artifacts(ours, [artifact])
    assert theirs.find("blob", artifact.key) == artifact
    artifact.location.fs.rm("/theirs", recursive=True)


def test_an_unknown_artifact_is_named(store):
    with pytest.raises(ArtifactError, match="no artifact `abcd`"):
        list_artifacts(store, ["abcd"], with_descendants=False)


def test_gc_lists_garbage_with_its_size(store):
    draft = abandon(store)
    size = sum(map(len, contents(draft).values()))
    shown = gsx("gc", "--store", store.location.url)
    assert shown.out.splitlines()[-1] == (f"1 item, {size} B can be deleted; add --delete to do so")
    assert draft.exists()
    removed = json.loads(gsx("gc", "--delete", "--json", "--store", store.location.url).out)
    assert (removed["removed"], removed["bytes"], len(removed["items"])) == (True, size, 1)
    assert not draft.exists()


def test_gc_reports_only_removed_items(store):
    draft = abandon(store)
    other = abandon(store, config={"size": 2})
    with FileLock(lock_path(draft)):
        removed = json.loads(gsx("gc", "--delete", "--json", "--store", store.location.url).out)
    assert [item["path"] for item in removed["items"]] == [str(other)]


def test_a_draft_for_a_remote_store_is_garbage_of_that_store():
    store = Store.at("memory://drafts")
    draft = abandon(store)
    assert listed(store) == [("abandoned draft", str(draft))]
    assert remove_all(store) == [True]
    assert not draft.exists()
