"""`gsx doctor` probes a store and a machine, and leaves nothing behind."""

import json
import platform

import pytest

from gsx import __version__
from tests.support.artifacts import gsx
from tests.support.remote_stores import ACCESS, SECRET, ignore_unclosed_sessions

pytestmark = ignore_unclosed_sessions


def states(result, group="store"):
    return {check["name"]: check["state"] for check in json.loads(result.out)[group]}


def test_a_local_store_passes_and_stays_unchanged(tmp_path):
    result = gsx("doctor", "--store", tmp_path / "store", "--json")
    assert result.code == 0
    assert states(result) == {
        "write": "ok", "read": "ok", "create-only": "ok", "links": "ok", "space": "ok",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert states(result, "versions")["numpy"] == "ok"
    assert "loops" in states(result, "versions")
    assert {"cpu", "cuda"} == set(states(result, "devices"))
    assert "OMP_NUM_THREADS" in states(result, "threads")


def test_an_object_store_passes_and_stays_unchanged(s3):
    from gsx.storage.artifacts.location import Location

    result = gsx("doctor", "--store", s3, "--json")
    assert result.code == 0, result.out
    assert set(states(result)) == {"create-only", "write", "read", "list", "remove"}
    assert Location.at(s3).sizes() == {}
    text = gsx("doctor", "--store", s3)
    assert text.out.startswith(f"store {s3}\n  create-only  ok")
    assert not any(word in text.out + result.out for word in (ACCESS, SECRET))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("careless://bucket", "ignores create-only writes"),
        ("frozen://bucket", "Access Denied"),
        ("s3://no-such-bucket/x", "does not exist"),
    ],
)
def test_an_unusable_store_is_reported_with_an_exit_code(faulty_stores, s3, url, found):
    result = gsx("doctor", "--store", url, "--json")
    assert result.code == 3
    assert json.loads(result.out)["ok"] is False
    assert found in result.out
    text = gsx("doctor", "--store", url).out
    assert found in text
    assert "\\n" not in text


def test_the_text_for_a_bug_report_names_versions_and_no_paths(tmp_path):
    text = gsx("doctor", "--report", "--store", tmp_path / "secret").out
    rows = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert rows["gsx"] == __version__
    assert rows["platform"] == platform.platform()
    assert {"python", "torch", "cpu", "loops"} <= rows.keys()
    assert str(tmp_path) not in text
    assert not (tmp_path / "secret").exists()
    assert "exclude each other" in gsx("doctor", "--report", "--json").err
