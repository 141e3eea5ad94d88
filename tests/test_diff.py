"""What differs between two artifacts."""

import json

import pytest

from gsx.storage.diff import Difference, diff
from gsx.storage.store import Store
from tests.artifacts import blob, gsx, parent_of


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def test_an_artifact_does_not_differ_from_itself(store):
    manifest = blob(store).manifest
    assert diff(manifest, manifest) == []


def test_two_generations_of_the_same_bytes_do_not_differ(store):
    assert diff(blob(store).manifest, blob(store, force=True).manifest) == []


def test_another_option_is_named_by_its_path(store):
    left = blob(store, config={"size": 1, "deep": {"list": [1, 2]}})
    right = blob(store, config={"size": 2, "deep": {"list": [1, 3]}})
    assert diff(left.manifest, right.manifest) == [
        Difference("config.deep.list[1]", 2, 3),
        Difference("config.size", 1, 2),
    ]


def test_an_option_only_one_side_has_is_named(store):
    left = blob(store, config={"size": 1})
    right = blob(store, config={"size": 1, "more": True})
    assert diff(left.manifest, right.manifest) == [Difference("config.more", None, True)]


def test_files_are_compared_by_content(store):
    left = blob(store, {"a": b"1", "b": b"same"})
    right = blob(store, {"a": b"2", "b": b"same", "c": b"new"}, force=True)
    found = diff(left.manifest, right.manifest)
    assert [item.where for item in found] == ["files.a", "files.c"]
    assert found[1].left is None


def test_lists_of_other_lengths_are_compared_whole(store):
    left, right = blob(store, config={"x": [1]}), blob(store, config={"x": [1, 2]})
    assert diff(left.manifest, right.manifest) == [Difference("config.x", [1], [1, 2])]


def test_a_parent_with_the_same_content_is_the_same_parent(store):
    first = blob(store)
    again = blob(store, config={"size": 2})
    assert first.manifest.digest == again.manifest.digest
    left = blob(store, kind="child", stage="child", parents=(parent_of(first),))
    right = blob(store, kind="child", stage="child2", parents=(parent_of(again),))
    assert [item.where for item in diff(left.manifest, right.manifest)] == ["stage"]


def test_a_parent_with_other_content_is_another_parent(store):
    first, other = blob(store), blob(store, {"x": b"1"}, config={"size": 2})
    left = blob(store, kind="child", stage="child", parents=(parent_of(first),))
    right = blob(store, kind="child", stage="child", parents=(parent_of(other),))
    (found,) = diff(left.manifest, right.manifest)
    assert found == Difference(
        "parents.source", f"blob {first.manifest.digest}", f"blob {other.manifest.digest}"
    )


def test_the_command_says_whether_the_content_is_the_same(store):
    left, right = blob(store), blob(store, config={"size": 2})
    words = ("diff", left.key, right.key, "--store", store.place.url)
    assert gsx(*words).out == "same content\nconfig.size\n  - 1\n  + 2\n"
    assert json.loads(gsx(*words, "--json").out) == {
        "same_content": True,
        "differences": [{"where": "config.size", "left": 1, "right": 2}],
    }
