"""The manifest of an artifact: kind, key, parents, configuration and the hash of every file.

The manifest is written last and never edited. Manifests may come from untrusted sources, so the
reader rejects unknown fields, other schema versions and paths outside the artifact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.limits import FILES, MANIFEST_BYTES, MANIFEST_DETAILS_BYTES
from gsx.storage.artifacts.digest import (
    SCHEMA_VERSION,
    artifact_key,
    content_digest,
    readable_json,
)

MANIFEST = "manifest.json"
RUN_RECORD = "run.json"
SIGNATURE = "manifest.json.minisig"
SIDECARS = (RUN_RECORD, SIGNATURE)
"""Files next to the manifest that are not covered by key and digest."""
MAX_DEPTH = 32
"""Maximum nesting of lists and objects in a manifest, as a defence against malicious input."""

_WRITTEN_BY = {1: "gsx 0.1"}
"""Earlier schema version → gsx version that reads it."""
_HEX = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_PATH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")

_RESERVED = frozenset(
    {"con", "prn", "aux", "nul"}
    | {f"{name}{number}" for name in ("com", "lpt") for number in "123456789"}
)
"""Names of devices on Windows, with any suffix."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of an artifact."""

    size: int
    """Bytes."""
    sha256: str
    rows: int | None = None
    """Graphs in a shard; None for other files."""


class Parent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input artifact."""

    role: str
    """Name of the input in the stage."""
    kind: str
    key: str
    digest: str


class Dropped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that were left out, with the reason."""

    reason: str
    count: int
    examples: tuple[str, ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of an artifact, stored as ``manifest.json``."""

    schema: int = SCHEMA_VERSION
    kind: str
    key: str
    digest: str
    """SHA-256 over all files; artifacts with the same digest hold the same bytes."""
    stage: str
    stage_version: int
    config: dict[str, Any]
    parents: tuple[Parent, ...] = ()
    raw: dict[str, str] = {}
    """SHA-256 of the raw files, by name."""
    seeds: dict[str, int] = {}
    """Root seed of each family of random streams."""
    files: dict[str, FileEntry]
    counts: dict[str, int] = {}
    """Graphs per split, or other counts, depending on the kind."""
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: dict[str, Any] = {}
    """Values for display: environments, sizes, quality."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files.values())


def files_digest(files: Mapping[str, FileEntry]) -> str:
    """Return the content digest of ``files``."""
    return content_digest({path: (entry.size, entry.sha256) for path, entry in files.items()})


def manifest_key(manifest: Manifest) -> str:
    """Compute the key from the stage, configuration, parents and raw files of ``manifest``."""
    return artifact_key(
        stage=manifest.stage,
        stage_version=manifest.stage_version,
        config=manifest.config,
        inputs={parent.role: parent.digest for parent in manifest.parents},
        raw=manifest.raw,
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of ``manifest.json``."""
    return readable_json(manifest)


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Decode and validate a manifest from an untrusted source; raise ArtifactError."""
    if len(data) > MANIFEST_BYTES.value:
        raise ArtifactError(
            f"{where} is {len(data):,} bytes, above the limit of {MANIFEST_BYTES.value:,} bytes. "
            f"{MANIFEST_BYTES.advice}"
        )
    outline = _decode(data, _Outline, where)
    version = outline.schema
    if version != SCHEMA_VERSION:
        raise ArtifactError(
            f"{where} has schema version {version}; this gsx reads version {SCHEMA_VERSION}.\nRead "
            f"it with {_WRITTEN_BY.get(version, 'the gsx version that wrote it')}, or build it "
            "again."
        )
    _check_extent(data, outline.files, where)
    manifest = _decode(data, Manifest, where)
    _check(manifest, where)
    return manifest


class _Outline(msgspec.Struct):
    schema: int
    files: msgspec.Raw = msgspec.Raw(b"{}")
    """The list of files, not decoded."""


def _check_extent(data: bytes, files: msgspec.Raw, where: str) -> None:
    """Raise ArtifactError if a manifest holds more than the limits, before it is decoded."""
    listed = bytes(files)
    num_files = listed.count(b"{") - 1
    if num_files > FILES.value:
        raise ArtifactError(
            f"{where} lists more files than the limit of {FILES.value:,}. {FILES.advice}"
        )
    details, limit = len(data) - len(listed), MANIFEST_DETAILS_BYTES.value
    if details > limit:
        raise ArtifactError(
            f"{where} has {details:,} bytes apart from its list of files, above the limit of "
            f"{limit:,} bytes. {MANIFEST_DETAILS_BYTES.advice}"
        )


_T = TypeVar("_T")


def _decode(data: bytes, type_: type[_T], where: str) -> _T:
    try:
        return typed_values.decode_json(data, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{where} is not a gsx manifest: {error}") from error


def _check(manifest: Manifest, where: str) -> None:
    if _too_deep([manifest.config, manifest.summary]):
        raise ArtifactError(f"{where} nests values more than {MAX_DEPTH} levels deep.")
    _check_names(manifest, where)
    _check_hashes(manifest, where)
    for path, entry in manifest.files.items():
        check_path(path, where)
        if entry.size < 0 or (entry.rows or 0) < 0:
            raise ArtifactError(
                f"{where}: file {path!r} has size {entry.size} and {entry.rows} rows; "
                "both must be non-negative"
            )
    _check_conflicts(manifest, where)
    for name, count in manifest.counts.items():
        if count < 0:
            raise ArtifactError(f"{where}: the count of {name!r} is negative ({count})")
    if files_digest(manifest.files) != manifest.digest:
        raise ArtifactError(f"{where}: the content digest does not match the list of files")
    if manifest_key(manifest) != manifest.key:
        raise ArtifactError(f"{where}: the key does not match the stage, its config and its inputs")


def _check_conflicts(manifest: Manifest, where: str) -> None:
    """Raise ArtifactError if two files cannot exist together on every file system."""
    paths: dict[str, str] = {}
    for path in manifest.files:
        other = paths.setdefault(path.casefold(), path)
        if other != path:
            raise ArtifactError(f"{where} lists {other!r} and {path!r}, which differ only in case")
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder:
            if folder in paths:
                raise ArtifactError(f"{where} lists {folder!r} as a file and as a folder")
            folder = folder.rpartition("/")[0]


def _check_names(manifest: Manifest, where: str) -> None:
    for kind in (manifest.kind, *(parent.kind for parent in manifest.parents)):
        if not KIND.fullmatch(kind):
            raise ArtifactError(f"{where}: {kind!r} is not a valid artifact kind")
    for word in (manifest.stage, *(parent.role for parent in manifest.parents)):
        if not _WORD.fullmatch(word):
            raise ArtifactError(f"{where}: {word!r} is not a valid stage or role name")
    roles = [parent.role for parent in manifest.parents]
    if len(set(roles)) != len(roles):
        raise ArtifactError(f"{where}: two parents have the same role")


def _check_hashes(manifest: Manifest, where: str) -> None:
    hashes = [manifest.key, manifest.digest, *manifest.raw.values()]
    hashes += [entry.sha256 for entry in manifest.files.values()]
    hashes += [value for parent in manifest.parents for value in (parent.key, parent.digest)]
    for value in hashes:
        if not _HEX.fullmatch(value):
            raise ArtifactError(f"{where}: {value!r} is not a SHA-256")


def _too_deep(values: list[Any]) -> bool:
    level = values
    for _ in range(MAX_DEPTH):
        nested = [value for value in level if isinstance(value, dict | list)]
        level = [
            inner
            for value in nested
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def _is_path_part(part: str) -> bool:
    """Return whether every file system accepts a name as it is."""
    stem = part.partition(".")[0].lower()
    return bool(_PATH_PART.fullmatch(part)) and part[-1] != "." and stem not in _RESERVED


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative path inside an artifact, else raise."""
    parts = path.split("/")
    if not all(map(_is_path_part, parts)) or len(parts) > 8:
        raise ArtifactError(
            f"{where} lists the file {path!r}. Paths must stay inside the artifact and contain "
            "only letters, digits and `._+-`, and no names that Windows reserves. Do not "
            "use this artifact; contact its sender."
        )
    if path in (MANIFEST, *SIDECARS):
        raise ArtifactError(f"{where} lists {path!r} among its files, which is a reserved name")
    return path
