"""`gsx doctor` says what a store and a machine can do, and leaves nothing behind."""

import json

import pytest

from tests.support.artifacts import gsx
from tests.support.remote_stores import ACCESS, SECRET, ignore_unclosed_sessions

pytestmark = ignore_unclosed_sessions


def states(said, group="store"):
    return {check["name"]: check["state"] for check in json.loads(said.out)[group]}


def test_a_local_store_is_sound_and_left_as_it_was(tmp_path):
    said = gsx("doctor", "--store", tmp_path / "store", "--json")
    assert said.code == 0
    assert states(said) == {
        "write": "ok", "read": "ok", "create-only": "ok", "links": "ok", "space": "ok",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert states(said, "versions")["numpy"] == "ok"
    assert "loops" in states(said, "versions")
    assert {"cpu", "cuda"} == set(states(said, "devices"))
    assert "OMP_NUM_THREADS" in states(said, "threads")


def test_an_object_store_is_sound_and_left_as_it_was(s3):
    from gsx.storage.artifacts.location import Location

    said = gsx("doctor", "--store", s3, "--json")
    assert said.code == 0, said.out
    assert set(states(said)) == {"create-only", "write", "read", "list", "remove"}
    assert Location.at(s3).sizes() == {}
    text = gsx("doctor", "--store", s3)
    assert text.out.startswith(f"store {s3}\n  create-only  ok")
    assert not any(word in text.out + said.out for word in (ACCESS, SECRET))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("careless://bucket", "ignores create-only writes"),
        ("frozen://bucket", "Access Denied"),
        ("s3://no-such-bucket/x", "does not exist"),
    ],
)
def test_a_store_that_will_not_do_is_told_and_the_code_says_so(faulty_stores, s3, url, found):
    said = gsx("doctor", "--store", url, "--json")
    assert said.code == 3
    assert json.loads(said.out)["ok"] is False
    assert found in said.out
    text = gsx("doctor", "--store", url).out
    assert found in text
    assert "\\n" not in text
