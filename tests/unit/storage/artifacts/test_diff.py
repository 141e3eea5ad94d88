"""Differences between two artifacts."""

import json

import pytest

from gsx.storage.artifacts.diff import Difference, diff_manifests
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import blob, gsx, motif, parent_of


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def test_an_artifact_does_not_differ_from_itself(store):
    manifest = blob(store).manifest
    assert diff_manifests(manifest, manifest) == []


def test_two_generations_of_the_same_bytes_do_not_differ(store):
    assert diff_manifests(blob(store).manifest, blob(store, force=True).manifest) == []


def test_another_option_is_named_by_its_path(store):
    left = blob(store, config={"size": 1, "deep": {"list": [1, 2]}})
    right = blob(store, config={"size": 2, "deep": {"list": [1, 3]}})
    assert diff_manifests(left.manifest, right.manifest) == [
        Difference("config.deep.list[1]", 2, 3),
        Difference("config.size", 1, 2),
    ]


def test_an_option_only_one_side_has_is_named(store):
    left = blob(store, config={"size": 1})
    right = blob(store, config={"size": 1, "more": True})
    assert diff_manifests(left.manifest, right.manifest) == [Difference("config.more", None, True)]


def test_files_are_compared_by_content(store):
    left = blob(store, {"a": b"1", "b": b"same"})
    right = blob(store, {"a": b"2", "b": b"same", "c": b"new"}, force=True)
    actual = diff_manifests(left.manifest, right.manifest)
    assert [item.where for item in actual] == ["files.a", "files.c"]
    assert actual[1].left is None


def test_lists_of_other_lengths_are_compared_whole(store):
    left, right = blob(store, config={"x": [1]}), blob(store, config={"x": [1, 2]})
    assert diff_manifests(left.manifest, right.manifest) == [Difference("config.x", [1], [1, 2])]


def test_a_parent_with_the_same_content_is_the_same_parent(store):
    first = blob(store)
    again = blob(store, config={"size": 2})
    assert first.manifest.digest == again.manifest.digest
    left = blob(store, kind="child", stage="child", parents=(parent_of(first),))
    right = blob(store, kind="child", stage="child2", parents=(parent_of(again),))
    assert [item.where for item in diff_manifests(left.manifest, right.manifest)] == ["stage"]


def test_a_parent_with_other_content_is_another_parent(store):
    first, other = blob(store), blob(store, {"x": b"1"}, config={"size": 2})
    left = blob(store, kind="child", stage="child", parents=(parent_of(first),))
    right = blob(store, kind="child", stage="child", parents=(parent_of(other),))
    (actual,) = diff_manifests(left.manifest, right.manifest)
    assert actual == Difference(
        "parents.source", f"blob {first.manifest.digest}", f"blob {other.manifest.digest}"
    )


def test_the_command_reports_whether_the_content_is_equal(store):
    left, right = blob(store), blob(store, config={"size": 2})
    words = ("diff", left.key, right.key, "--store", store.location.url)
    assert gsx(*words).out == ("same content\nDIFFERS      LEFT  RIGHT\nconfig.size  1     2\n")
    assert json.loads(gsx(*words, "--json").out) == {
        "same_content": True,
        "differences": [{"where": "config.size", "left": 1, "right": 2}],
    }


def test_corpora_are_compared_by_their_graphs(store):
    small, large = motif(store, num_graphs=30), motif(store, num_graphs=60)
    actual = json.loads(
        gsx("diff", small.key, large.key, "--store", store.location.url, "--json").out
    )["graphs"]
    assert (actual["all"]["left"], actual["all"]["right"]) == (30, 60)
    assert actual["splits"]["train"]["left_found_in_right"] <= 18
    assert 0 <= actual["splits"]["train"]["distance"]["size"] <= 1


def test_a_corpus_shares_everything_with_itself(store):
    artifact = motif(store)
    result = gsx("diff", artifact.key, artifact.key, "--store", store.location.url)
    lines = result.out.splitlines()
    assert lines[0] == "same content"
    assert lines[-2].split() == ["all", "30", "30", "30", "30", "0.00", "0.00", "0.00"]


def test_graphs_are_found_again_whatever_the_order_of_corpora(store):
    """A corpus of half the graphs is contained in the whole, which shares half of its graphs."""
    from gsx.stages.describe.compare import compare
    from gsx.storage.corpora.corpus import Corpus
    from tests.support.run_stages import write_small_corpus

    def whole(table):
        return table

    def half(table):
        return table.with_columns(node={"node_feat": table.node["node_feat"] * 2})

    left, right = (Corpus(write_small_corpus(store.location.url, item)) for item in (whole, half))
    actual = compare(left, right)
    assert actual["all"]["left_found_in_right"] == 0  # other features are other graphs
    assert actual["all"]["distance"] == {"size": 0.0, "degree": 0.0, "label": 0.0}


def test_only_manifests_are_compared_on_request(store):
    small, large = motif(store, num_graphs=30), motif(store, num_graphs=60)
    words = ("diff", small.key, large.key, "--store", store.location.url, "--manifests-only")
    assert "graphs" not in json.loads(gsx(*words, "--json").out)
    assert "files.data" in gsx(*words).out
