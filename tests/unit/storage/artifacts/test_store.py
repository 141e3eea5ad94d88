"""Artifacts are found by key, by the start of a key, by directory and by URL."""

import os
import shutil
from pathlib import Path

import fsspec
import pytest

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from tests.support.artifacts import blob, gsx


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


def test_a_whole_key_finds_its_artifact(store):
    made = blob(store)
    assert store.resolve(made.key) == made


@pytest.mark.parametrize("length", [4, 12, 32, 63])
def test_the_start_of_a_key_finds_its_artifact(store, length):
    made = blob(store)
    assert store.resolve(made.key[:length]) == made


def test_a_key_may_be_typed_in_capitals(store):
    made = blob(store)
    assert store.resolve(made.key[:20].upper()) == made


def test_a_directory_finds_the_artifact_in_it(store):
    made = blob(store)
    found = store.resolve(str(made.location.local))
    assert (found.manifest, found.location.local) == (made.manifest, made.location.local)


def test_a_file_url_finds_the_artifact_there(store):
    made = blob(store)
    assert store.resolve(f"file://{made.location.local}").manifest == made.manifest


def test_a_directory_outside_any_store_finds_the_artifact_in_it(store, tmp_path):
    made = blob(store)
    given = shutil.copytree(made.location.local, tmp_path / "given")
    assert Store.at(tmp_path / "other").resolve(str(given)).key == made.key


def test_an_ambiguous_start_names_the_keys_it_could_mean(store):
    made = blob(store)
    near = store.location.local / "blob" / (made.key[:8] + "0" * 24)
    shutil.copytree(made.location.local, near)
    with pytest.raises(UsageError) as caught:
        store.resolve(made.key[:8])
    shown = ", ".join(sorted([made.key[:12], near.name[:12]]))
    assert str(caught.value) == f"`{made.key[:8]}` is ambiguous: it matches {shown}. Type more of the key."


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_start_shorter_than_four_digits_is_too_short_even_if_it_fits_one_key(store, length):
    made = blob(store)
    with pytest.raises(UsageError, match="is too short; type at least 4 digits"):
        store.resolve(made.key[:length])


@pytest.mark.parametrize("name", ["0123abcd", "not hexadecimal", "no/such/folder", "x" * 5000])
def test_an_unknown_name_is_refused_with_advice(store, name):
    blob(store)
    with pytest.raises(ArtifactError) as caught:
        store.resolve(name)
    assert str(caught.value) == (
        f"no artifact `{name}` in {store.location.url}.\n"
        "`gsx ls` lists artifacts; `--store DIR` or GSX_STORE selects another store."
    )


def test_a_key_that_goes_on_differently_is_not_the_artifact(store):
    made = blob(store)
    wrong = made.key[:-1] + ("0" if made.key[-1] != "0" else "1")
    with pytest.raises(ArtifactError, match=f"no artifact `{wrong}` .*; the closest key is"):
        store.resolve(wrong)


def test_a_directory_without_a_manifest_is_not_an_artifact(store, tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ArtifactError, match="photos is a directory without manifest"):
        store.resolve(str(tmp_path / "photos"))


def test_a_url_without_a_manifest_is_not_an_artifact(store, tmp_path):
    with pytest.raises(ArtifactError, match=r"is not an artifact: it has no manifest\.json"):
        store.resolve(f"file://{tmp_path}/nothing")


def test_a_url_of_an_unknown_kind_is_refused(store):
    with pytest.raises(StoreError, match="cannot open carrierpigeon://x: Protocol not known"):
        store.resolve("carrierpigeon://x")


def test_another_kind_than_the_one_wanted_is_refused(store):
    made = blob(store)
    with pytest.raises(ArtifactError) as caught:
        store.resolve(str(made.location.local), kind="corpus")
    assert str(caught.value) == (
        f"{made.location.local} is a blob, not a corpus.\n`gsx ls --kind corpus` lists artifacts of the right kind."
    )
    with pytest.raises(ArtifactError, match="no corpus artifact"):
        store.resolve(made.key, kind="corpus")


def test_a_key_means_its_newest_generation(store):
    blob(store)
    second = blob(store, {"other": b"bytes"}, force=True)
    assert store.resolve(second.key) == second
    assert store.resolve(second.key).generation == 2
    assert store.find("blob", second.key) == second


def test_a_generation_can_be_named(store):
    first = blob(store)
    second = blob(store, {"other": b"bytes"}, force=True)
    assert store.resolve(f"{first.key[:12]}.g1") == first
    assert store.resolve(f"{first.key[:12]}.g2") == second
    with pytest.raises(ArtifactError, match=r"no artifact `.*\.g3`"):
        store.resolve(f"{first.key[:12]}.g3")


def test_generations_are_counted_not_sorted_as_text(store):
    made = blob(store)
    for number in (2, 9, 10):
        shutil.copytree(made.location.local, f"{made.location.local}.g{number}")
    assert store.generations("blob", made.key) == [1, 2, 9, 10]
    assert store.find("blob", made.key).generation == 10


def test_peek_prefers_the_generation_with_the_wanted_content(store):
    first = blob(store)
    second = blob(store, {"other": b"bytes"}, force=True)
    assert store.peek("blob", first.key, first.manifest.digest) == first
    assert store.peek("blob", first.key, second.manifest.digest) == second
    assert store.peek("blob", first.key, "0" * 64) == second
    assert store.peek("blob", "0" * 64, first.manifest.digest) is None


def test_the_latest_is_the_one_published_last(store):
    older, newer = blob(store), blob(store, config={"size": 2})
    os.utime(older.location.local / "manifest.json", (1000, 1000))
    assert store.latest("blob") == newer
    os.utime(newer.location.local / "manifest.json", (999, 999))
    assert store.latest("blob") == older


def test_the_latest_of_an_absent_kind_is_an_error(store):
    blob(store)
    with pytest.raises(ArtifactError, match=r"no corpus in .*store; `gsx ls` lists artifacts"):
        store.latest("corpus")


def test_strangers_and_hidden_folders_are_not_artifacts(store):
    made = blob(store)
    root = store.location.local
    for name in (
        f".drafts/{made.key[:32]}",
        f".trash/{made.key[:32]}",
        f"Photos/{made.key[:32]}",
        "blob/thesis",
        f"blob/{made.key[:31]}",
        f"blob/{made.key}",
        f"blob/{made.key[:32]}.g1",
        f"blob/{made.key[:32]}.g02",
        f"blob/{made.key[:32]}.bak",
        f"blob/deep/{made.key[:32]}",
    ):
        shutil.copytree(made.location.local, root / name)
    (root / "blob" / ("f" * 32)).mkdir()
    (root / "readme.txt").write_text("hello")
    assert list(store.entries()) == [("blob", made.key[:32], 1)]


def test_entries_come_in_order(store):
    keys = sorted(blob(store, config={"number": n}).key[:32] for n in range(4))
    other = blob(store, kind="apple")
    assert list(store.entries()) == [
        ("apple", other.key[:32], 1),
        *[("blob", key, 1) for key in keys],
    ]


@pytest.mark.parametrize("look", ["find", "resolve", "directory", "artifacts", "peek", "latest"])
def test_an_artifact_under_the_name_of_another_is_detected(store, look):
    made = blob(store)
    taken = "0" * 32
    made.location.local.rename(store.location.local / "blob" / taken)
    calls = {
        "find": lambda: store.find("blob", taken + "0" * 32),
        "resolve": lambda: store.resolve(taken),
        "directory": lambda: store.resolve(str(store.location.local / "blob" / taken)),
        "artifacts": lambda: list(store.artifacts()),
        "peek": lambda: store.peek("blob", taken + "0" * 32, "0" * 64),
        "latest": lambda: store.latest("blob"),
    }
    with pytest.raises(ArtifactError) as caught:
        calls[look]()
    assert f"{taken} holds blob {made.key[:12]}, whose key does not match" in str(caught.value)


@pytest.mark.parametrize("look", ["find", "resolve", "artifacts", "latest"])
def test_an_artifact_among_those_of_another_kind_is_detected(store, look):
    made = blob(store)
    (store.location.local / "corpus").mkdir()
    made.location.local.rename(store.location.local / "corpus" / made.key[:32])
    calls = {
        "find": lambda: store.find("corpus", made.key),
        "resolve": lambda: store.resolve(made.key),
        "artifacts": lambda: list(store.artifacts()),
        "latest": lambda: store.latest("corpus"),
    }
    with pytest.raises(
        ArtifactError, match="is a blob in the folder of kind corpus"
    ):
        calls[look]()


def test_a_key_that_shares_only_its_first_half_is_not_found(store):
    made = blob(store)
    with pytest.raises(ArtifactError, match="the closest key is"):
        store.find("blob", made.key[:32] + "0" * 32)


def test_a_store_that_is_not_there_is_empty(store):
    assert list(store.entries()) == []
    assert store.find("blob", "0" * 64) is None
    assert not store.location.local.exists()


def test_a_store_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file is a file, not a store\.\nPass a directory"):
        list(Store.at(tmp_path / "file").entries())


def test_a_store_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot read the store .*/inside: Not a directory"):
        list(Store.at(tmp_path / "file" / "inside").entries())


def test_the_store_is_the_argument_else_the_variable_else_artifacts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Store.at().location.local == tmp_path / "artifacts"
    monkeypatch.setenv("GSX_STORE", "from-variable")
    assert Store.at().location.local == tmp_path / "from-variable"
    assert Store.at("given").location.local == tmp_path / "given"


def test_a_store_in_the_home_folder_is_shown_as_a_path_that_opens(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.at("~/store/").location.url == f"{tmp_path}/store"


def test_the_path_of_an_artifact_is_as_the_store_was_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    artifact = blob(Store.at("./here/"))
    assert artifact.location.url == f"here/blob/{artifact.key[:32]}"
    assert Path(artifact.location.url).is_dir()


def test_a_store_of_another_file_system_holds_artifacts_as_well():
    store = Store.at("memory://a-store/deep")
    made = blob(store)
    assert store.find("blob", made.key) == made
    assert store.resolve(made.key[:8]) == made
    assert store.resolve(made.location.url).key == made.key
    assert Artifact.open(Location.at(made.location.url)).manifest == made.manifest
    fsspec.filesystem("memory").rm("/a-store", recursive=True)


def test_ls_lists_generations_apart(store):
    made = blob(store)
    blob(store, {"other": b"bytes"}, force=True)
    lines = gsx("ls", "--store", store.location.url).out.splitlines()
    assert [line.split()[1] for line in lines] == ["KEY", made.key[:12], f"{made.key[:12]}.g2"]


def test_ls_lists_the_others_beside_a_damaged_one(store):
    good, bad = blob(store), blob(store, config={"size": 2})
    manifest = bad.location.local / "manifest.json"
    manifest.unlink()
    manifest.write_text("{")
    said = gsx("ls", "--store", store.location.url)
    assert said.code == 3
    assert good.key[:12] in said.out
    assert said.err.startswith(f"DAMAGED  {manifest} is not a gsx manifest")


def test_names_from_elsewhere_cannot_change_the_terminal(store):
    from gsx.storage.artifacts.publish import build_artifact
    from tests.support.artifacts import identity, write_files

    summary = {"name": "\x1b[31mred"}
    build_artifact(store, identity(), write_files(summary=summary, warnings=("\x1b]0;title\x07",)))
    for command in (("ls",), ("show", identity().key)):
        said = gsx(*command, "--store", store.location.url)
        assert "\x1b" not in said.out + said.err
        assert "\\x1b[31mred" in said.out
