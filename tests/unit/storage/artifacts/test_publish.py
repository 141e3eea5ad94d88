"""An artifact is built once, published completely or not at all, and never changes."""

import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest
from filelock import FileLock

from gsx.errors import ArtifactError, StageError, StoreError
from gsx.storage.artifacts import publish
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.publish import StageResult, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.artifacts.verify_files import find_file_problems
from tests.support.artifacts import FILES, blob, contents, identity, write_files


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def visible(store):
    return list(store.entries())


def forbidden(draft):
    raise AssertionError("produce was called though the artifact is there")


def test_an_artifact_holds_what_was_produced(store):
    artifact = build_artifact(store, identity(), write_files()).artifact
    held = contents(artifact.location.local)
    assert {path: held[path] for path in FILES} == FILES
    assert sorted(held) == sorted([*FILES, "manifest.json", "run.json"])


def test_the_second_build_reuses_the_first(store):
    first = build_artifact(store, identity(), write_files())
    second = build_artifact(store, identity(), forbidden)
    assert (first.reused, second.reused) == (False, True)
    assert second.artifact == first.artifact
    assert second.note == ""


def test_force_makes_a_new_generation_and_leaves_the_old_one(store):
    old = build_artifact(store, identity(), write_files()).artifact
    before = contents(old.location.local)
    new = build_artifact(store, identity(), write_files({"other": b"content"}), force=True).artifact
    assert contents(old.location.local) == before
    assert (old.generation, new.generation) == (1, 2)
    assert new.location.url == f"{old.location.url}.g2"
    assert build_artifact(store, identity(), forbidden).artifact == new


def test_a_generation_number_is_never_reused(store):
    old = blob(store)
    blob(store, force=True)
    for path in sorted(old.location.local.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    old.location.local.rmdir()
    third = blob(store, force=True)
    assert third.generation == 3
    assert third.location.root.endswith(".g3")


def test_a_failing_stage_leaves_nothing_visible(store):
    def fail(draft):
        draft.write_bytes("data/a.bin", b"first")
        raise StageError("bad molecule")

    with pytest.raises(StageError, match="bad molecule"):
        build_artifact(store, identity(), fail)
    assert visible(store) == []
    assert store.find("blob", identity().key) is None


def test_an_immediate_error_leaves_no_draft(store):
    def refuse(draft):
        draft.scratch.joinpath("half").write_bytes(b"read so far")
        raise StageError("no such column")

    with pytest.raises(StageError, match="no such column"):
        build_artifact(store, identity(), refuse)
    assert list((store.location.local / ".drafts").iterdir()) == []


def test_units_finished_before_a_failure_are_not_written_again(store):
    written = []

    def produce(draft, *, until):
        for number in range(4):
            if number == until:
                raise StageError("stopped")

            def write(path, number=number):
                written.append(number)
                path.write_bytes(b"%d" % number)

            draft.write(f"part-{number}", write)
        return StageResult()

    for until in (2, 3, None):
        try:
            artifact = build_artifact(
                store, identity(), lambda draft, until=until: produce(draft, until=until)
            ).artifact
        except StageError:
            continue
    assert written == [0, 1, 2, 3]
    assert sorted(artifact.manifest.files) == ["part-0", "part-1", "part-2", "part-3"]


def test_nothing_of_the_draft_is_left_after_publishing(store):
    blob(store)
    assert list((store.location.local / ".drafts").iterdir()) == []


def test_a_file_that_no_unit_owns_is_not_published(store):
    def produce(draft):
        draft.write_bytes("kept", b"kept")
        (draft.content / "stray").write_bytes(b"stray")
        return StageResult()

    artifact = build_artifact(store, identity(), produce).artifact
    assert sorted(contents(artifact.location.local)) == ["kept", "manifest.json", "run.json"]
    assert find_file_problems(artifact.location, artifact.manifest) == []


def test_an_unused_unit_of_a_failed_run_is_not_published(store):
    def fail(draft):
        draft.write_bytes("leftover", b"of a layout that was given up")
        raise StageError("stopped")

    with pytest.raises(StageError):
        build_artifact(store, identity(), fail)
    artifact = build_artifact(store, identity(), write_files()).artifact
    assert sorted(artifact.manifest.files) == sorted(FILES)
    assert find_file_problems(artifact.location, artifact.manifest) == []


def test_two_versions_of_the_code_never_mix_in_one_artifact(store):
    def fail(draft):
        draft.write_bytes("data/a.bin", b"by old code")
        raise StageError("stopped")

    with pytest.raises(StageError):
        build_artifact(store, identity(source="old"), fail)
    built = build_artifact(store, identity(source="new"), write_files())
    assert contents(built.artifact.location.local)["data/a.bin"] == b"first"
    assert built.note == "deleted an unfinished draft by different code of test"


def test_the_order_of_writing_does_not_change_the_digest(tmp_path):
    turned = dict(reversed(FILES.items()))
    digests = [
        blob(Store.at(tmp_path / name), files).manifest.digest
        for name, files in (("one", FILES), ("two", turned))
    ]
    assert digests[0] == digests[1]


def test_the_manifest_is_a_function_of_the_key(tmp_path):
    texts = [
        (blob(Store.at(tmp_path / name)).location.local / "manifest.json").read_bytes()
        for name in ("one", "two")
    ]
    assert texts[0] == texts[1]


def test_published_files_are_read_only(store):
    folder = blob(store).location.local
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o444}


def test_reuse_of_an_artifact_of_different_code_is_reported(store):
    build_artifact(store, identity(source="old"), write_files())
    note = build_artifact(store, identity(source="new"), forbidden).note
    key = identity().key[:12]
    assert (
        note
        == f"blob {key} was built by different code of test version 1; `--force` builds it again."
    )


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff\xff", b"x" * (2 << 20)])
def test_a_damaged_run_record_does_not_matter(store, text):
    record = (
        build_artifact(store, identity(source="old"), write_files()).artifact.location.local
        / "run.json"
    )
    record.unlink()
    record.write_bytes(text)
    assert build_artifact(store, identity(source="new"), forbidden).note == ""


def test_the_run_record_contains_no_user_or_host(store):
    record = json.loads((blob(store, source="abc").location.local / "run.json").read_text())
    assert sorted(record) == [
        "date", "device", "peak_memory_mib", "platform", "python", "seconds", "source", "timings",
        "versions",
    ]  # fmt: skip
    assert record["source"] == "abc"
    assert record["versions"]["gsx"] == "0.2.0"
    assert os.uname().nodename not in json.dumps(record)


PARENT = Parent(role="corpus", kind="corpus", key="a" * 64, digest="b" * 64)


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"size": 2}},
        {"stage": "other"},
        {"stage_version": 2},
        {"raw": {"hiv.csv": "c" * 64}},
        {"parents": (PARENT,)},
    ],
)
def test_another_identity_is_another_artifact(store, change):
    first, second = blob(store), blob(store, **change)
    assert first.key != second.key
    assert len(visible(store)) == 2


def test_a_rebuilt_input_with_the_same_content_gives_the_same_key():
    other = Parent(role="corpus", kind="corpus", key="d" * 64, digest=PARENT.digest)
    assert identity(parents=(PARENT,)).key == identity(parents=(other,)).key


def test_an_input_with_other_content_gives_another_key():
    other = Parent(role="corpus", kind="corpus", key=PARENT.key, digest="e" * 64)
    assert identity(parents=(PARENT,)).key != identity(parents=(other,)).key


@pytest.mark.parametrize("change", [{"seeds": {"a": 1}}, {"source": "other"}])
def test_the_code_and_the_list_of_seeds_are_recorded_but_are_not_part_of_the_key(change):
    assert identity(**change).key == identity().key


def test_a_damaged_artifact_is_not_reused_but_can_be_rebuilt(store):
    broken = blob(store)
    path = broken.location.local / "data/a.bin"
    path.unlink()
    path.write_bytes(b"FIRST")
    with pytest.raises(
        ArtifactError, match=r"data/a.bin does not match the SHA-256 .*\n.*`--force`"
    ):
        build_artifact(store, identity(), forbidden)
    assert build_artifact(store, identity(), write_files(), force=True).artifact.generation == 2


def test_an_invalid_manifest_is_not_published(store):
    with pytest.raises(ArtifactError, match="the manifest of test: 'Not A Kind' is not a valid"):
        build_artifact(store, identity(kind="Not A Kind"), write_files())
    assert visible(store) == []


def test_an_existing_file_at_the_target_is_reported_and_kept(store):
    target = store.folder("blob", identity().key).local
    target.parent.mkdir(parents=True)
    target.write_text("do not lose")
    with pytest.raises(StoreError, match="already exists and is not an artifact"):
        blob(store)
    assert target.read_text() == "do not lose"


@pytest.mark.parametrize("name", [".drafts", ".locks", "blob"])
def test_a_file_in_place_of_a_store_folder_is_reported_and_kept(store, name):
    store.location.local.mkdir()
    (store.location.local / name).write_text("do not lose")
    with pytest.raises(StoreError) as error:
        blob(store)
    file = store.location.local / name
    assert str(error.value).startswith(
        f"cannot write to {store.location.url}: File exists ({file}). Finished"
    )
    assert (store.location.local / name).read_text() == "do not lose"


def test_an_artifact_removed_during_the_search_is_reported(store, monkeypatch):
    artifact = blob(store)
    monkeypatch.setattr(Store, "find", lambda self, kind, key: None)
    with pytest.raises(ArtifactError, match=f"artifact {artifact.key[:12]} was removed from"):
        build_artifact(store, identity(), forbidden)


def test_an_existing_folder_at_the_target_is_reported_and_kept(store):
    target = store.folder("blob", identity().key).local
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("do not lose")
    with pytest.raises(StoreError, match=r"already exists and is not an artifact.*\n.*Move it"):
        blob(store)
    assert contents(target) == {"thesis.txt": b"do not lose"}
    (target / "thesis.txt").unlink()
    assert blob(store).location.local == target


def test_the_next_build_cleans_up_after_a_crash_during_publishing(store, monkeypatch):
    def crash(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish, "remove_tree", crash)
        with pytest.raises(KeyboardInterrupt):
            blob(store)
    drafts = store.location.local / ".drafts"
    assert len(list(drafts.iterdir())) == 1
    assert build_artifact(store, identity(), forbidden).reused
    assert list(drafts.iterdir()) == []


def test_the_draft_of_an_interrupted_forced_build_is_kept(store):
    def fail(draft):
        draft.write_bytes("data/a.bin", b"first")
        raise StageError("stopped")

    blob(store)
    with pytest.raises(StageError):
        build_artifact(store, identity(), fail, force=True)
    build_artifact(store, identity(), forbidden)
    (draft,) = (store.location.local / ".drafts").iterdir()
    assert contents(draft / "content") == {"data/a.bin": b"first"}


def test_a_waiting_builder_is_notified(store, tmp_path):
    lock = FileLock(publish.lock_path(publish.draft_folder(store) / identity().key))
    (store.location.local / ".locks").mkdir(parents=True)
    lock.acquire()
    messages = []

    def hear(text):
        messages.append(text)
        lock.release()

    build_artifact(store, identity(), write_files(), on_wait=hear)
    assert messages == [f"another gsx process is building {identity().key[:12]}; waiting for it"]


BUILDER = textwrap.dedent(
    """
    import os, sys, time
    from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
    from gsx.storage.artifacts.store import Store

    root, calls, force = sys.argv[1], sys.argv[2], sys.argv[3] == "force"

    def produce(draft):
        with open(calls, "a") as log:
            log.write("call\\n")
        for number in range(5):
            time.sleep(0.1)
            draft.write_bytes(f"part-{number}", b"x")
        return StageResult()

    identity = Identity(kind="blob", stage="slow", stage_version=1, config={})
    built = build_artifact(Store.at(root), identity, produce, force=force,
                           on_wait=lambda text: print("waited", end=" "))
    print(built.reused, built.artifact.manifest.digest, built.artifact.generation)
    """
)


def race(tmp_path, mode, builders=3):
    """Run several builders of one key at once; return their outputs and the number of builds."""
    calls = tmp_path / "calls"
    words = [sys.executable, "-c", BUILDER, str(tmp_path / "store"), str(calls), mode]
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(builders)
    ]
    result = [process.communicate(timeout=60) for process in running]
    assert [err for _, err in result] == [""] * builders
    return [out.split() for out, _ in result], len(calls.read_text().splitlines())


def test_one_of_several_builders_builds_and_the_others_reuse_it(tmp_path):
    result, calls = race(tmp_path, "once")
    assert calls == 1
    assert sorted(words[-3] for words in result) == ["False", "True", "True"]
    assert len({words[-2] for words in result}) == 1
    assert len(list(Store.at(tmp_path / "store").entries())) == 1


def test_several_forced_builders_of_one_key_never_share_a_generation(tmp_path):
    result, calls = race(tmp_path, "force")
    made = [words[-1] for words in result if words[-3] == "False"]
    assert len(made) == calls
    assert len(set(made)) == len(made)
    assert len(list(Store.at(tmp_path / "store").entries())) == calls
