"""`gsx tag` and `--tag`: names that every command accepts instead of keys."""

import functools
import http.server
import json
import threading

import pytest

from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx, motif

SMALL = ("--epochs", 1, "--width", 8)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def output(*words):
    result = gsx(*words, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_commands_accept_tags_instead_of_keys(store, tmp_path):
    words = ("--store", store)
    corpus = output("prepare", "motif-size", "--num-graphs", 120, "--tag", "source", *words)
    made = output("generate", "source", "--options", "001", "--bridges", "none", "--count", 10,
                  "--tag", "made", *words)  # fmt: skip
    model = output("train", "made", *SMALL, "--tag", "net", *words)
    assert output("show", "source", *words)["key"] == corpus["key"]
    assert output("show", "made", *words)["tags"] == ["made"]
    assert output("evaluate", "net", "made", *words)["model_key"] == model["key"]
    assert output("lineage", "net", *words)["lineage"][1]["key"] == made["key"]
    assert output("verify", "net", "made", *words)["ok"] is True
    assert gsx("diff", "source", "made", "--manifests-only", *words).code == 0
    assert gsx("predict", "net", "made", "--split", "ood_test", *words).code == 0
    other = tmp_path / "other"
    assert output("push", "made", other, *words)["key"] == made["key"]
    assert output("pull", "net", "--from", store, "--store", other)["key"] == model["key"]
    assert set(output("tag", *words)["tags"]) == {"source", "made", "net"}
    listed = gsx("tag", *words).out.splitlines()
    assert listed[0].split() == ["TAG", "KIND", "KEY", "DATE"]
    assert "tags     net" in gsx("show", "net", *words).out


def test_the_tag_of_a_result_moves_with_a_note(store):
    words = ("--store", store, "--tag", "source")
    first = output("prepare", "motif-size", "--num-graphs", 60, *words)
    assert "the tag" not in gsx("prepare", "motif-size", "--num-graphs", 60, *words).err
    moved = gsx("prepare", "motif-size", "--num-graphs", 90, *words)
    assert f"the tag `source` was moved from corpus {first['key'][:12]}" in moved.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["KEY", "motif-size"], "`motif-size` is the name of a dataset"),
        (["KEY", "face"], "`face` could be a key"),
        (["KEY", "A"], "cannot be a tag"),
        (["KEY"], "no name. Give one: `gsx tag"),
        (["KEY", "x", "--delete", "x"], "--delete takes the name of a tag and no ARTIFACT"),
        (["--delete", "x"], "no tag `x`"),
        (["KEY", "taken"], "`taken` is already a tag of corpus"),
    ],
)
def test_wrong_uses_are_usage_errors(store, words, message):
    artifact, other = motif(Store.at(store)), motif(Store.at(store), num_graphs=60)
    assert gsx("tag", other.key, "taken", "--store", store).code == 0
    words = [artifact.key if word == "KEY" else word for word in words]
    result = gsx("tag", *words, "--store", store)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_wrong_name_is_rejected_before_anything_is_built(store):
    result = gsx("prepare", "motif-size", "--num-graphs", 60, "--tag", "a/b", "--store", store)
    assert result.code == 2
    assert not store.exists()


def test_an_artifact_outside_of_the_store_has_no_tag(store, tmp_path):
    artifact = motif(Store.at(tmp_path / "other"))
    result = gsx("tag", artifact.location.url, "x", "--store", store)
    assert result.code == 2
    assert "is not in the store" in result.err
    assert "`gsx pull" in result.err


def test_a_tag_is_deleted(store):
    artifact = motif(Store.at(store))
    assert gsx("tag", artifact.key, "x", "--store", store).code == 0
    assert output("tag", "--delete", "x", "--store", store) == {"deleted": "x"}
    assert output("tag", "--store", store) == {"tags": {}}
    assert "No tags in" in gsx("tag", "--store", store).err


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


def test_an_artifact_is_pulled_by_its_tag_over_http(store, tmp_path):
    artifact = motif(Store.at(store))
    assert gsx("tag", artifact.key, "shared", "--store", store).code == 0
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{running.server_port}/store"
        pulled = output("pull", "shared", "--from", url, "--store", tmp_path / "ours")
        unknown = gsx("pull", "other", "--from", url, "--store", tmp_path / "ours")
        running.shutdown()
    assert pulled["key"] == artifact.key
    assert unknown.code == 3
    assert "no tag `other`" in unknown.err
