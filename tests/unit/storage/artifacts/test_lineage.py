"""Ancestors and descendants of artifacts."""

import pytest

from gsx.cli.lineage_svg import BOX_HEIGHT, lineage_svg
from gsx.storage.artifacts.lineage import Ancestor, descendants, walk_lineage
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import blob, gsx, identity, parent_of


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def child(store, *parents, stage="child"):
    actual = tuple(parent_of(parent, role=f"p{i}") for i, parent in enumerate(parents))
    return blob(store, kind="child", stage=stage, parents=actual)


def steps(store, artifact):
    return [(step.depth, step.role, step.key) for step in walk_lineage(store, artifact)]


def test_an_artifact_without_parents_is_its_whole_lineage(store):
    artifact = blob(store)
    assert list(walk_lineage(store, artifact)) == [
        Ancestor(0, "", "blob", artifact.key, "test", same_content=True)
    ]


def test_lineage_lists_parents_right_after_their_child(store):
    first, second = blob(store), blob(store, config={"size": 2})
    middle = child(store, first)
    last = child(store, middle, second, stage="last")
    assert steps(store, last) == [
        (0, "", last.key),
        (1, "p0", middle.key),
        (2, "p0", first.key),
        (1, "p1", second.key),
    ]


def test_a_parent_missing_from_the_store_is_listed(store, tmp_path):
    parent = blob(Store.at(tmp_path / "other"))
    made = child(store, parent)
    assert list(walk_lineage(store, made))[1] == Ancestor(
        1, "p0", "blob", parent.key, None, same_content=False
    )


def test_a_parent_whose_content_changed_is_marked(store):
    parent = blob(store, {"x": b"1"})
    made = child(store, parent)
    assert list(walk_lineage(store, made))[1].same_content is True
    blob(store, {"x": b"2"}, force=True)
    assert list(walk_lineage(store, made))[1].same_content is True
    for path in sorted(parent.location.local.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    parent.location.local.rmdir()
    assert list(walk_lineage(store, made))[1].same_content is False


def test_a_shared_ancestor_is_followed_once(store):
    root = blob(store)
    left, right = child(store, root, stage="left"), child(store, root, stage="right")
    last = child(store, left, right, stage="last")
    assert [key for _, _, key in steps(store, last)] == [
        last.key, left.key, root.key, right.key, root.key,
    ]  # fmt: skip
    grand = blob(store, config={"size": 3})
    deep = child(store, grand, stage="deep")
    wide = child(store, deep, deep, stage="wide")
    assert [key for _, _, key in steps(store, wide)] == [
        wide.key, deep.key, grand.key, deep.key,
    ]  # fmt: skip


def ring(store):
    """Publish two artifacts that list each other as parent; return one of them."""
    names = ("egg", "hen")
    content = {name: {"x": name.encode()} for name in names}
    digests = {name: blob(store, content[name], kind=name).manifest.digest for name in names}
    other = {"egg": "hen", "hen": "egg"}

    def parents(name, key):
        return (Parent(role="from", kind=other[name], key=key, digest=digests[other[name]]),)

    keys = {name: identity(stage=name, parents=parents(name, "0" * 64)).key for name in names}
    made = [
        blob(store, content[name], kind=name, stage=name, parents=parents(name, keys[other[name]]))
        for name in names
    ]
    assert [artifact.key for artifact in made] == [keys[name] for name in names]
    return made


def test_artifacts_that_claim_to_come_from_each_other_end_the_lineage(store):
    egg, hen = ring(store)
    assert steps(store, egg) == [(0, "", egg.key), (1, "from", hen.key), (2, "from", egg.key)]


def test_artifacts_that_claim_to_come_from_each_other_are_each_others_descendants(store):
    egg, hen = ring(store)
    assert {artifact.key for artifact in descendants(store, egg)} == {egg.key, hen.key}


def test_descendants_are_children_and_their_children(store):
    first, other = blob(store), blob(store, config={"size": 2})
    middle = child(store, first)
    last = child(store, middle, other, stage="last")
    assert {artifact.key for artifact in descendants(store, first)} == {middle.key, last.key}
    assert [artifact.key for artifact in descendants(store, other)] == [last.key]
    assert descendants(store, last) == []


def test_the_command_shows_a_tree(store, tmp_path):
    absent = blob(Store.at(tmp_path / "other"), config={"size": 9})
    root = blob(store)
    made = child(store, root, absent)
    result = gsx("lineage", made.key, "--store", store.location.url)
    assert result.out.splitlines() == [
        f"child {made.key[:12]} by child",
        f"   └─ p0: blob {root.key[:12]} by test",
        f"   └─ p1: blob {absent.key[:12]} not in this store",
    ]


def test_lineage_is_drawn_with_every_artifact_once(store, tmp_path):
    import xml.etree.ElementTree as ET

    first, second = blob(store), blob(store, config={"size": 2})
    middle = child(store, first)
    last = child(store, middle, second, first, stage="last")
    target = tmp_path / "lineage.svg"
    result = gsx("lineage", last.key, "--svg", target, "--store", store.location.url)
    assert result.code == 0, result.err
    picture = ET.parse(target).getroot()
    words = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    for made in (first, second, middle, last):
        assert sum(made.key[:12] in (word or "") for word in words) == 1
    arrows = [node for node in picture.iter("{http://www.w3.org/2000/svg}path")
              if "marker-end" in node.attrib]  # fmt: skip
    assert len(arrows) == 4
    plain = [arrow for arrow in arrows if "H" not in arrow.attrib["d"]]
    assert len(plain) == 4


def test_an_arrow_does_not_run_behind_a_box(store):
    import re

    first = blob(store)
    middle = child(store, first)
    last = child(store, middle, first, stage="last")
    picture = lineage_svg(list(walk_lineage(store, last)))
    low = max(float(y) + BOX_HEIGHT for y in re.findall(r'<rect x="[^"]*" y="([^"]*)"', picture))
    around = re.findall(r'<path d="(M[^"]*H[^"]*)"', picture)
    assert len(around) == 1
    lane = float(re.search(r" (\d+)H", around[0])[1])
    assert low < lane < float(re.search(r'height="(\d+)"', picture)[1])
