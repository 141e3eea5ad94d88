"""Manifests from untrusted sources are decoded completely or rejected with an ArtifactError."""

import copy
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import ArtifactError
from gsx.limits import MANIFEST_DETAILS_BYTES
from gsx.storage.artifacts.digest import artifact_key, content_digest
from gsx.storage.artifacts.manifest import Manifest, check_path, decode_manifest, encode_manifest

HASH = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
DOCUMENT = {
    "schema": 2,
    "kind": "corpus",
    "stage": "prepare",
    "stage_version": 1,
    "config": {"dataset": "motif-size", "share": 0.5, "formats": ["parquet"]},
    "parents": [{"role": "corpus", "kind": "corpus", "key": "a" * 64, "digest": "b" * 64}],
    "raw": {"hiv.csv": "c" * 64},
    "seeds": {"prepare": 0},
    "files": {
        "corpus.json": {"size": 3, "sha256": HASH},
        "data/train-00000-of-00001.parquet": {"size": 3, "sha256": HASH, "rows": 7},
    },
    "counts": {"train": 7},
    "dropped": [{"reason": "no label", "count": 1, "examples": ["CCO"]}],
    "warnings": ["environment 3 has no training graphs"],
    "summary": {"name": "motif-size", "environments": []},
}


def with_digest_and_key(document):
    """Return ``document`` with matching digest and key."""
    entries = document["files"].items()
    files = {path: (entry["size"], entry["sha256"]) for path, entry in entries}
    inputs = {parent["role"]: parent["digest"] for parent in document["parents"]}
    names = ("stage", "stage_version", "config", "raw")
    key = artifact_key(inputs=inputs, **{name: document[name] for name in names})
    return {**document, "digest": content_digest(files), "key": key}


VALID = with_digest_and_key(DOCUMENT)


def changed(**fields):
    return with_digest_and_key({**copy.deepcopy(DOCUMENT), **fields})


def decode(document):
    return decode_manifest(json.dumps(document).encode(), "here/manifest.json")


def assert_refused(document, text):
    with pytest.raises(ArtifactError) as error:
        decode(document)
    assert str(error.value).startswith("here/manifest.json")
    assert text in str(error.value)


def test_a_manifest_survives_writing_and_reading():
    manifest = decode(VALID)
    assert decode_manifest(encode_manifest(manifest), "again") == manifest


def test_a_manifest_lists_what_was_written():
    manifest = decode(VALID)
    assert (manifest.kind, manifest.stage, manifest.counts) == ("corpus", "prepare", {"train": 7})
    assert manifest.files["data/train-00000-of-00001.parquet"].rows == 7
    assert manifest.size == 6


@pytest.mark.parametrize(
    "path",
    [
        "../x", "a/../../x", "..", ".", "./a", "/etc/passwd", "a\\b", "a\0b", "", "a//b", "a/", "/",
        ".hidden", "a/.hidden", "a b", "a\n", "é", "C:x", "~", "-x", "a" * 129, "a*", "$HOME",
        "a/b/c/d/e/f/g/h/i", "\u202egnp.exe", "NUL", "data/con", "aux.txt", "COM1.a.b", "lpt9/a",
        "a.", "a./b",
    ],
)  # fmt: skip
def test_a_path_that_is_not_plain_and_inside_is_refused(path):
    assert_refused(changed(files={path: {"size": 3, "sha256": HASH}}), "Paths must stay inside")


@pytest.mark.parametrize("path", ["manifest.json", "run.json"])
def test_a_manifest_may_not_list_itself_or_the_run_record(path):
    assert_refused(
        changed(files={path: {"size": 3, "sha256": HASH}}),
        "among its files, which is a reserved name",
    )


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "_a",
        "0",
        "data/x-00000-of-00001.parquet",
        "zarr/s/c/0/0",
        "a+b_c-d.e",
        "a..b",
        "console",
        "com10",
    ],
)
def test_a_plain_path_is_accepted(path):
    assert check_path(path, "here") == path


@pytest.mark.parametrize("bad", [HASH.upper(), HASH[:-1], HASH + "0", "", "g" * 64, HASH + "\n"])
@pytest.mark.parametrize("field", ["key", "digest", "file", "raw", "parent key", "parent digest"])
def test_a_hash_that_is_not_a_lowercase_sha256_is_refused(field, bad):
    document = copy.deepcopy(VALID)
    if field == "file":
        document["files"]["corpus.json"]["sha256"] = bad
    elif field == "raw":
        document["raw"]["hiv.csv"] = bad
    elif field.startswith("parent"):
        document["parents"][0][field.split()[1]] = bad
    else:
        document[field] = bad
    assert_refused(document, "is not a SHA-256")


def test_a_negative_size_is_refused():
    assert_refused(changed(files={"a": {"size": -1, "sha256": HASH}}), "'a' has size -1")


def test_negative_rows_are_refused():
    assert_refused(changed(files={"a": {"size": 1, "sha256": HASH, "rows": -2}}), "and -2 rows")


def test_a_negative_count_is_refused():
    assert_refused(changed(counts={"train": -3}), "the count of 'train' is negative (-3)")


@pytest.mark.parametrize("kind", ["", "Corpus", "../corpus", ".corpus", "a/b", "a" * 33, "é"])
def test_a_kind_that_could_not_be_a_folder_is_refused(kind):
    assert_refused(changed(kind=kind), "is not a valid artifact kind")


@pytest.mark.parametrize("word", ["", "a b", "\x1b[31m", "a\nb", ".a"])
def test_a_stage_or_a_role_that_is_not_a_word_is_refused(word):
    assert_refused(changed(stage=word), "is not a valid stage or role name")
    parent = {**DOCUMENT["parents"][0], "role": word}
    assert_refused(changed(parents=[parent]), "is not a valid stage or role name")


def test_two_parents_for_one_role_are_refused():
    assert_refused(changed(parents=DOCUMENT["parents"] * 2), "two parents have the same role")


@pytest.mark.parametrize(
    ("place", "known"),
    [((), "schema"), (("files", "corpus.json"), "size"), (("parents", 0), "role")],
)
def test_an_unknown_field_is_refused(place, known):
    document = copy.deepcopy(VALID)
    inner = document
    for step in place:
        inner = inner[step]
    assert known in inner
    inner["surprise"] = 1
    assert_refused(document, "unknown field `surprise`")


@pytest.mark.parametrize("field", ["kind", "key", "digest", "stage", "config", "files"])
def test_a_missing_field_is_refused(field):
    document = {name: value for name, value in VALID.items() if name != field}
    assert_refused(document, f"missing required field `{field}`")


@pytest.mark.parametrize("version", [0, 3, 99, -1])
def test_another_schema_version_is_refused_with_advice(version):
    assert_refused(
        {**VALID, "schema": version},
        f"has schema version {version}; this gsx reads version 2.\n"
        "Read it with the gsx version that wrote it, or build it again.",
    )


def test_a_newer_schema_is_reported_as_newer_not_as_damaged():
    assert_refused({"schema": 3, "novelty": {"deep": [1]}}, "has schema version 3")


def test_schema_1_is_refused_with_the_version_that_reads_it():
    assert_refused(
        {**VALID, "schema": 1},
        "has schema version 1; this gsx reads version 2.\nRead it with gsx 0.1, or build it again.",
    )


@pytest.mark.parametrize("version", [True, "1", 1.5, None, [1]])
def test_a_schema_version_must_be_an_integer(version):
    assert_refused({**VALID, "schema": version}, "is not a gsx manifest")


def test_files_that_do_not_match_the_digest_are_refused():
    assert_refused(
        {**VALID, "digest": "0" * 64}, "the content digest does not match the list of files"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stage", "other"),
        ("stage_version", 2),
        ("config", {"dataset": "motif-base"}),
        ("raw", {}),
        ("parents", []),
        ("key", "0" * 64),
    ],
)
def test_an_edited_manifest_is_refused(field, value):
    assert_refused(
        {**VALID, field: value}, "the key does not match the stage, its config and its inputs"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"{", b"null", b"[]", b"1", b'"x"', b"{} {}", b"\xff\xfe{}", b"\x00" * 64,
        b'{"schema":2,"kind":"\xff"}', b'{"schema":2,"\xff":1}', b'{"schema":2,"kind":"\\ud800"}',
        b'{"schema":2e999}', b'{"schema":NaN}', b'{"schema":' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}", b"<html>404</html>",
    ],
)  # fmt: skip
def test_json_other_than_an_object_is_refused(data):
    with pytest.raises(ArtifactError, match="here is not a gsx manifest"):
        decode_manifest(data, "here")


@pytest.mark.parametrize("field", ["config", "summary", "surprise", "schema"])
@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deeply_nested_json_is_refused(field, left, right):
    data = json.dumps({**VALID, field: 0}).encode()
    bomb = left * 100_000 + b"1" + right * 100_000
    data = data.replace(f'"{field}": 0'.encode(), f'"{field}": '.encode() + bomb, 1)
    with pytest.raises(ArtifactError, match="here is not a gsx manifest"):
        decode_manifest(data, "here")


@pytest.mark.parametrize("field", ["config", "summary"])
def test_too_deeply_nested_values_are_refused(field):
    value = "leaf"
    for _ in range(40):
        value = {"a": [value]}
    assert_refused(changed(**{field: value}), "nests values more than 32 levels deep")


def test_an_oversized_manifest_is_not_parsed(monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_MANIFEST_BYTES", "100")
    with pytest.raises(ArtifactError, match="here is 101 bytes, above the limit of 100 bytes"):
        decode_manifest(b"{" * 101, "here")


def accepted_or_refused(data):
    """Decode ``data``; return None if it raises ArtifactError."""
    try:
        return decode_manifest(data, "here")
    except ArtifactError:
        return None


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(data):
    assert accepted_or_refused(data) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def iter_paths(value, path=()):
    """Yield the path of every value inside ``value``."""
    yield path
    inside = dict(enumerate(value)) if isinstance(value, list) else value
    for key, inner in inside.items() if isinstance(inside, dict) else ():
        yield from iter_paths(inner, (*path, key))


@given(st.sampled_from(sorted(set(iter_paths(VALID)) - {()}, key=str)), JSON, st.booleans())
def test_a_manifest_with_any_value_replaced_is_read_or_refused(spot, value, sign):
    document = copy.deepcopy(VALID)
    inner = document
    for step in spot[:-1]:
        inner = inner[step]
    inner[spot[-1]] = value
    if sign:
        try:
            document = with_digest_and_key(document)
        except (TypeError, ValueError, KeyError, AttributeError):
            return
    manifest = accepted_or_refused(json.dumps(document).encode())
    assert manifest is None or isinstance(manifest, Manifest)


@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=3)),
        min_size=1,
        max_size=4,
    )
)
def test_a_manifest_with_bytes_cut_and_pasted_is_read_or_refused(edits):
    data = json.dumps(VALID).encode()
    for position, cut, paste in edits:
        at = position % len(data)
        data = data[:at] + paste + data[at + cut :]
    manifest = accepted_or_refused(data)
    assert manifest is None or isinstance(manifest, Manifest)


@given(st.text(alphabet=st.sampled_from("aZ0_./\\-+~ \0\né:"), max_size=12))
def test_no_accepted_path_leaves_the_artifact(tmp_path_factory, path):
    root = tmp_path_factory.getbasetemp() / "artifact"
    try:
        check_path(path, "here")
    except ArtifactError:
        return
    assert (root / path).resolve().is_relative_to(root.resolve())
    assert (root / path).resolve() != root.resolve()


@pytest.mark.parametrize(
    "fields",
    [
        {"config": {"x": [{}] * 1000}},
        {"summary": {"x": [[]] * 1500}},
        {"warnings": [""] * 2000},
        {"counts": {f"c{number}": 1 for number in range(500)}},
    ],
)
def test_details_are_bounded_before_they_are_decoded(monkeypatch, fields):
    document = changed(**fields)
    assert decode(document).kind == "corpus"
    monkeypatch.setenv("GSX_LIMIT_MANIFEST_DETAILS_BYTES", "3K")
    assert_refused(document, "apart from its list of files")
    assert_refused(document, "GSX_LIMIT_MANIFEST_DETAILS_BYTES")


def test_a_second_list_of_files_counts_as_details(monkeypatch):
    files = ", ".join(f'"a{number}": {{"size": 3}}' for number in range(200))
    data = b'{"files": {' + files.encode() + b"}, " + json.dumps(VALID).encode()[1:]
    monkeypatch.setenv("GSX_LIMIT_MANIFEST_DETAILS_BYTES", "3K")
    with pytest.raises(ArtifactError, match="apart from its list of files"):
        decode_manifest(data, "here")


def test_the_number_of_files_is_bounded(monkeypatch):
    files = {f"a{number}": {"size": 3, "sha256": HASH} for number in range(11)}
    monkeypatch.setenv("GSX_LIMIT_FILES", "10")
    assert_refused(changed(files=files), "more files than the limit of 10")
    del files["a0"]
    assert len(decode(changed(files=files)).files) == 10


def test_a_manifest_of_allowed_size_needs_little_memory(monkeypatch):
    """Empty objects are the largest values in memory, relative to their text."""
    data = json.dumps(changed(config={"x": [{}] * 100_000}), separators=(",", ":")).encode()
    tracemalloc.start()
    try:
        decode_manifest(data, "here")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    limit = MANIFEST_DETAILS_BYTES.default
    assert peak / len(data) * limit < 1 << 30
