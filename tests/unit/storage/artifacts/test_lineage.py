"""Ancestors and descendants of artifacts."""

import time
from types import SimpleNamespace

import pytest

from gsx.errors import ArtifactError, UsageError
from gsx.pipeline.commands.transfer import ancestor_locations
from gsx.pipeline.lineage_svg import BOX_HEIGHT, lineage_svg
from gsx.stages.report.page import _parents_first
from gsx.storage.artifacts.lineage import Ancestor, descendants, lineage_manifests, walk_lineage
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
        1, "p0", "blob", parent.key, None, same_content=False, stored=False
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


# --- lineages of unknown origin -------------------------------------------------------------------


class ClaimedStore:
    """A store whose manifests claim any parents; keys and digests of real ones cannot."""

    def __init__(self, parents_of):
        self.parents_of = parents_of
        self.num_peeks = 0

    def artifact(self, key):
        parents = tuple(
            Parent(role=f"p{i}", kind="blob", key=parent, digest=parent)
            for i, parent in enumerate(self.parents_of[key])
        )
        manifest = SimpleNamespace(kind="blob", key=key, digest=key, stage="s", parents=parents,
                                   files={})  # fmt: skip
        return SimpleNamespace(
            key=key, manifest=manifest, location=SimpleNamespace(url=key, local=None)
        )

    def peek(self, _, key, __):
        self.num_peeks += 1
        return self.artifact(key) if key in self.parents_of else None

    def recorded(self, *_):
        return None

    def artifacts(self):
        return map(self.artifact, self.parents_of)


CYCLE = {"a": ["b", "a"], "b": ["c"], "c": ["a", "b"]}
LADDER = {**{f"{n}{s}": [f"{n + 1}x", f"{n + 1}y"] for n in range(200) for s in "xy"},
          "200x": [], "200y": []}  # fmt: skip
CHAIN = {str(n): [str(n + 1)] for n in range(900)} | {"900": []}


@pytest.mark.parametrize(
    ("parents_of", "root"), [(CYCLE, "a"), (LADDER, "0x"), (CHAIN, "0")],
    ids=["cycle", "ladder", "chain"],
)  # fmt: skip
def test_cycles_ladders_and_chains_end(parents_of, root, monkeypatch):
    claimed = ClaimedStore(parents_of)
    started = time.monotonic()
    ancestors = list(walk_lineage(claimed, claimed.artifact(root)))
    assert {ancestor.key for ancestor in ancestors} == set(parents_of) - (
        {"0y"} if root == "0x" else set()
    )
    manifests = lineage_manifests(claimed, claimed.artifact(root))
    assert len(manifests) == len({manifest.key for manifest in manifests}) > 2
    assert len(descendants(claimed, claimed.artifact(root))) <= len(parents_of)
    monkeypatch.setattr("gsx.pipeline.lineage_svg.MAX_BOXES", 1000)
    monkeypatch.setattr("gsx.pipeline.lineage_svg._passes_behind", lambda *_: False)
    assert lineage_svg(ancestors).count("<g>") == len({a.key for a in ancestors})
    assert len(_parents_first(manifests)) == len(manifests)
    monkeypatch.setattr(
        "gsx.pipeline.commands.transfer.read_manifest",
        lambda location: claimed.artifact(location.url).manifest,
    )
    claimed.folder = lambda _, key: SimpleNamespace(url=key)
    urls = [at.url for at in ancestor_locations(claimed, claimed.artifact(root).manifest, print)]
    assert len(set(urls)) == len(urls)
    assert time.monotonic() - started < 5


def test_a_lineage_has_a_limit(monkeypatch):
    claimed = ClaimedStore({"0": [str(n) for n in range(1, 5000)]})
    for walk in (walk_lineage, lineage_manifests):
        with pytest.raises(ArtifactError, match=r"more than 1,000 entries\. Set GSX_LIMIT_LINEAGE"):
            list(walk(claimed, claimed.artifact("0")))
    assert claimed.num_peeks <= 2000
    monkeypatch.setenv("GSX_LIMIT_LINEAGE", "5000")
    assert len(list(walk_lineage(claimed, claimed.artifact("0")))) == 5000


def test_a_large_lineage_is_not_drawn():
    claimed = ClaimedStore(CHAIN)
    with pytest.raises(UsageError, match="--svg draws at most 200 artifacts"):
        lineage_svg(list(walk_lineage(claimed, claimed.artifact("0"))))


def test_descendants_come_after_all_of_their_ancestors():
    claimed = ClaimedStore({"a": [], "c": ["a", "b"], "b": ["a"], "d": ["c", "a"]})
    derived = descendants(claimed, claimed.artifact("a"))
    assert [artifact.key for artifact in derived] == ["b", "c", "d"]


def test_manifests_in_a_bundle_are_limited(monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_MANIFEST_BYTES", "100")
    artifact = ClaimedStore({"a": []}).artifact("a")
    artifact.manifest.files["lineage/x.json"] = SimpleNamespace(size=101)
    with pytest.raises(ArtifactError, match="more than the limit of 100 bytes"):
        lineage_manifests(None, artifact)
