"""Artifacts are found by key, key prefix, directory and URL."""

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
    artifact = blob(store)
    assert store.resolve(artifact.key) == artifact


@pytest.mark.parametrize("length", [4, 12, 32, 63])
def test_a_key_prefix_finds_its_artifact(store, length):
    artifact = blob(store)
    assert store.resolve(artifact.key[:length]) == artifact


def test_a_key_may_be_typed_in_capitals(store):
    artifact = blob(store)
    assert store.resolve(artifact.key[:20].upper()) == artifact


def test_a_directory_finds_the_artifact_in_it(store):
    artifact = blob(store)
    found = store.resolve(str(artifact.location.local))
    assert (found.manifest, found.location.local) == (artifact.manifest, artifact.location.local)


def test_a_file_url_finds_the_artifact_there(store):
    artifact = blob(store)
    assert store.resolve(f"file://{artifact.location.local}").manifest == artifact.manifest


def test_a_directory_outside_any_store_finds_the_artifact_in_it(store, tmp_path):
    artifact = blob(store)
    received = shutil.copytree(artifact.location.local, tmp_path / "given")
    assert Store.at(tmp_path / "other").resolve(str(received)).key == artifact.key


def test_an_ambiguous_prefix_is_reported_with_the_matching_keys(store):
    artifact = blob(store)
    near = store.location.local / "blob" / (artifact.key[:8] + "0" * 24)
    shutil.copytree(artifact.location.local, near)
    with pytest.raises(UsageError) as error:
        store.resolve(artifact.key[:8])
    shown = ", ".join(sorted([artifact.key[:12], near.name[:12]]))
    assert (
        str(error.value)
        == f"`{artifact.key[:8]}` is ambiguous: it matches {shown}. Type more of the key."
    )


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_prefix_shorter_than_four_digits_is_refused_even_if_unique(store, length):
    artifact = blob(store)
    with pytest.raises(UsageError, match="is too short; type at least 4 digits"):
        store.resolve(artifact.key[:length])


@pytest.mark.parametrize("name", ["0123abcd", "not hexadecimal", "no/such/folder", "x" * 5000])
def test_an_unknown_name_is_refused_with_advice(store, name):
    blob(store)
    with pytest.raises(ArtifactError) as error:
        store.resolve(name)
    assert str(error.value) == (
        f"no artifact `{name}` in {store.location.url}.\n"
        "`gsx ls` lists artifacts; `--store DIR` or GSX_STORE selects another store."
    )


def test_a_key_with_a_different_second_half_is_not_found(store):
    artifact = blob(store)
    wrong = artifact.key[:-1] + ("0" if artifact.key[-1] != "0" else "1")
    with pytest.raises(ArtifactError, match=f"no artifact `{wrong}` .*; the closest key is"):
        store.resolve(wrong)


def test_a_directory_without_a_manifest_is_not_an_artifact(store, tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ArtifactError, match="photos is a directory without manifest"):
        store.resolve(str(tmp_path / "photos"))


def test_a_url_without_a_manifest_is_not_an_artifact(store, tmp_path):
    with pytest.raises(ArtifactError, match=r"is not an artifact: it has no manifest\.json"):
        store.resolve(f"file://{tmp_path}/nothing")


def test_a_url_with_an_unknown_scheme_is_refused(store):
    with pytest.raises(StoreError, match="cannot open carrierpigeon://x: Protocol not known"):
        store.resolve("carrierpigeon://x")


def test_an_artifact_of_another_kind_is_refused(store):
    artifact = blob(store)
    with pytest.raises(ArtifactError) as error:
        store.resolve(str(artifact.location.local), kind="corpus")
    assert str(error.value) == (
        f"{artifact.location.local} is a blob, not a corpus.\n"
        "`gsx ls --kind corpus` lists artifacts of the right kind."
    )
    for name in (artifact.key, artifact.key[:8]):
        with pytest.raises(ArtifactError, match=f"`{name}` is a blob, not a corpus"):
            store.resolve(name, kind="corpus")


def test_a_key_means_its_newest_generation(store):
    blob(store)
    second = blob(store, {"other": b"bytes"}, force=True)
    assert store.resolve(second.key) == second
    assert store.resolve(second.key).generation == 2
    assert store.find("blob", second.key) == second


def test_a_generation_can_be_selected(store):
    first = blob(store)
    second = blob(store, {"other": b"bytes"}, force=True)
    assert store.resolve(f"{first.key[:12]}.g1") == first
    assert store.resolve(f"{first.key[:12]}.g2") == second
    with pytest.raises(ArtifactError, match=r"no artifact `.*\.g3`"):
        store.resolve(f"{first.key[:12]}.g3")


def test_generations_are_counted_not_sorted_as_text(store):
    artifact = blob(store)
    for number in (2, 9, 10):
        shutil.copytree(artifact.location.local, f"{artifact.location.local}.g{number}")
    assert store.generations("blob", artifact.key) == [1, 2, 9, 10]
    assert store.find("blob", artifact.key).generation == 10


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


def test_unknown_and_hidden_folders_are_not_artifacts(store):
    artifact = blob(store)
    root = store.location.local
    for name in (
        f".drafts/{artifact.key[:32]}",
        f".trash/{artifact.key[:32]}",
        f"Photos/{artifact.key[:32]}",
        "blob/thesis",
        f"blob/{artifact.key[:31]}",
        f"blob/{artifact.key}",
        f"blob/{artifact.key[:32]}.g1",
        f"blob/{artifact.key[:32]}.g02",
        f"blob/{artifact.key[:32]}.bak",
        f"blob/deep/{artifact.key[:32]}",
    ):
        shutil.copytree(artifact.location.local, root / name)
    (root / "blob" / ("f" * 32)).mkdir()
    (root / "readme.txt").write_text("hello")
    assert list(store.entries()) == [("blob", artifact.key[:32], 1)]


def test_entries_come_in_order(store):
    keys = sorted(blob(store, config={"number": n}).key[:32] for n in range(4))
    other = blob(store, kind="apple")
    assert list(store.entries()) == [
        ("apple", other.key[:32], 1),
        *[("blob", key, 1) for key in keys],
    ]


@pytest.mark.parametrize("method", ["find", "resolve", "directory", "artifacts", "peek", "latest"])
def test_an_artifact_in_the_folder_of_another_key_is_detected(store, method):
    artifact = blob(store)
    taken = "0" * 32
    artifact.location.local.rename(store.location.local / "blob" / taken)
    calls = {
        "find": lambda: store.find("blob", taken + "0" * 32),
        "resolve": lambda: store.resolve(taken),
        "directory": lambda: store.resolve(str(store.location.local / "blob" / taken)),
        "artifacts": lambda: list(store.artifacts()),
        "peek": lambda: store.peek("blob", taken + "0" * 32, "0" * 64),
        "latest": lambda: store.latest("blob"),
    }
    with pytest.raises(ArtifactError) as error:
        calls[method]()
    assert f"{taken} holds blob {artifact.key[:12]}, whose key does not match" in str(error.value)


@pytest.mark.parametrize("method", ["find", "resolve", "artifacts", "latest"])
def test_an_artifact_in_the_folder_of_another_kind_is_detected(store, method):
    artifact = blob(store)
    (store.location.local / "corpus").mkdir()
    artifact.location.local.rename(store.location.local / "corpus" / artifact.key[:32])
    calls = {
        "find": lambda: store.find("corpus", artifact.key),
        "resolve": lambda: store.resolve(artifact.key),
        "artifacts": lambda: list(store.artifacts()),
        "latest": lambda: store.latest("corpus"),
    }
    with pytest.raises(ArtifactError, match="is a blob in the folder of kind corpus"):
        calls[method]()


def test_a_key_that_shares_only_its_first_half_is_not_found(store):
    artifact = blob(store)
    with pytest.raises(ArtifactError, match="the closest key is"):
        store.find("blob", artifact.key[:32] + "0" * 32)


def test_a_missing_store_is_empty(store):
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


def test_a_store_in_the_home_folder_is_printed_as_a_valid_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.at("~/store/").location.url == f"{tmp_path}/store"


def test_the_path_of_an_artifact_starts_with_the_store_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    artifact = blob(Store.at("./here/"))
    assert artifact.location.url == f"here/blob/{artifact.key[:32]}"
    assert Path(artifact.location.url).is_dir()


def test_a_store_of_another_file_system_holds_artifacts_as_well():
    store = Store.at("memory://a-store/deep")
    artifact = blob(store)
    assert store.find("blob", artifact.key) == artifact
    assert store.resolve(artifact.key[:8]) == artifact
    assert store.resolve(artifact.location.url).key == artifact.key
    assert Artifact.open(Location.at(artifact.location.url)).manifest == artifact.manifest
    fsspec.filesystem("memory").rm("/a-store", recursive=True)


def test_ls_lists_generations_separately(store):
    artifact = blob(store)
    blob(store, {"other": b"bytes"}, force=True)
    lines = gsx("ls", "--store", store.location.url).out.splitlines()
    assert [line.split()[1] for line in lines] == [
        "KEY",
        artifact.key[:12],
        f"{artifact.key[:12]}.g2",
    ]


def test_ls_lists_intact_artifacts_despite_a_damaged_one(store):
    good, bad = blob(store), blob(store, config={"size": 2})
    manifest = bad.location.local / "manifest.json"
    manifest.unlink()
    manifest.write_text("{")
    result = gsx("ls", "--store", store.location.url)
    assert result.code == 3
    assert good.key[:12] in result.out
    assert result.err.startswith(f"DAMAGED  {manifest} is not a gsx manifest")


def test_untrusted_names_are_printed_without_control_characters(store):
    from gsx.storage.artifacts.publish import build_artifact
    from tests.support.artifacts import identity, write_files

    summary = {"name": "\x1b[31mred"}
    build_artifact(store, identity(), write_files(summary=summary, warnings=("\x1b]0;title\x07",)))
    for command in (("ls",), ("show", identity().key)):
        result = gsx(*command, "--store", store.location.url)
        assert "\x1b" not in result.out + result.err
        assert "\\x1b[31mred" in result.out
