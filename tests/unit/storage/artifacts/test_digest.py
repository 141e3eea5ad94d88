"""Content hashes and artifact keys."""

import hashlib
import io
import itertools

import pytest

from gsx.storage.artifacts.digest import (
    CHUNK,
    artifact_key,
    canonical_json,
    content_digest,
    readable_json,
    sha256_bytes,
    sha256_file,
    sha256_stream,
)

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
IDENTITY = {
    "stage": "prepare",
    "stage_version": 1,
    "config": {"seed": 0, "dataset": "motif-size"},
    "inputs": {"corpus": "a" * 64},
    "raw": {"hiv.csv": "b" * 64},
}


def test_bytes_have_the_published_sha256():
    assert sha256_bytes(b"abc") == ABC


def test_a_file_has_the_hash_of_its_bytes(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_file(tmp_path / "abc") == ABC


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_a_stream_is_hashed_to_its_end(size):
    data = bytes(size)
    assert sha256_stream(io.BytesIO(data)) == (size, hashlib.sha256(data).hexdigest())


def test_canonical_json_is_sorted_compact_utf8():
    value = {"b": (1, 2.5), "a": {"ä": None, "Z": True}}
    assert canonical_json(value) == '{"a":{"Z":true,"ä":null},"b":[1,2.5]}'.encode()


@pytest.mark.parametrize("encode", [canonical_json, readable_json])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_in_json(encode, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"x": number})


def test_readable_json_has_one_value_per_line():
    assert readable_json({"b": 1, "a": "é"}) == '{\n  "a": "é",\n  "b": 1\n}\n'.encode()


def test_a_key_is_the_hash_of_what_the_specification_lists():
    text = (
        '{"config":{"dataset":"motif-size","seed":0},"inputs":{"corpus":"' + "a" * 64 + '"},'
        '"raw":{"hiv.csv":"' + "b" * 64 + '"},"schema":2,"stage":"prepare","stage_version":1}'
    )
    assert artifact_key(**IDENTITY) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stage", "describe"),
        ("stage_version", 2),
        ("config", {"seed": 1, "dataset": "motif-size"}),
        ("config", {"seed": "0", "dataset": "motif-size"}),
        ("config", {"seed": 0, "dataset": "motif-size", "more": None}),
        ("inputs", {"corpus": "c" * 64}),
        ("inputs", {"other": "a" * 64}),
        ("raw", {"hiv.csv": "c" * 64}),
        ("raw", {}),
    ],
)
def test_every_part_of_an_identity_changes_the_key(field, value):
    assert artifact_key(**{**IDENTITY, field: value}) != artifact_key(**IDENTITY)


def test_the_order_in_which_options_were_written_does_not_change_the_key():
    turned = {**IDENTITY, "config": dict(reversed(IDENTITY["config"].items()))}
    assert list(turned["config"]) != list(IDENTITY["config"])
    assert artifact_key(**turned) == artifact_key(**IDENTITY)


def test_the_content_digest_is_the_hash_of_sorted_lines():
    files = {"b": (2, "22"), "a/c": (1, "11")}
    expected = hashlib.sha256(b"a/c\x001\x0011\nb\x002\x0022\n").hexdigest()
    assert content_digest(files) == expected


def test_the_content_digest_does_not_depend_on_order():
    files = [("a", (1, "11")), ("b", (2, "22")), ("c", (3, "33"))]
    assert len({content_digest(dict(order)) for order in itertools.permutations(files)}) == 1


@pytest.mark.parametrize("other", [{"b": (1, "11")}, {"a": (2, "11")}, {"a": (1, "12")}, {}])
def test_path_size_and_bytes_all_count_in_the_content_digest(other):
    assert content_digest(other) != content_digest({"a": (1, "11")})
