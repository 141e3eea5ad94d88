"""Verify the files of an artifact against its manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.digest import sha256_stream
from gsx.storage.artifacts.location import Location, VerifiedFiles, translate_remote_errors
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    SIDECARS,
    FileEntry,
    Manifest,
    decode_manifest,
)
from gsx.storage.artifacts.safe_files import FileStamp, stamp_of, walk

EXPORT = "export"
"""Kind of artifacts for other libraries."""
CACHE_DIRECTORY = "processed"
"""Directory of an export in which OGB and PyG store what they have read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of an artifact."""

    path: str
    what: str
    """Predicate of a sentence whose subject is ``path``."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of hashing the files of an artifact."""

    problems: list[Problem]
    location: Location
    """The location, which opens only files with the verified content if it is local."""
    caches: tuple[str, ...] = ()
    """Files that readers of an export stored in it; they are no part of the artifact."""

    @property
    def stamps(self) -> Mapping[str, FileStamp]:
        """Stamps of the local files whose hash is right, by path."""
        return {} if self.location.verified is None else self.location.verified.stamps


def read_manifest(location: Location) -> Manifest:
    """Read and validate the manifest of the artifact at ``location``."""
    return read_manifest_bytes(location)[1]


def read_manifest_bytes(location: Location) -> tuple[bytes, Manifest]:
    """Return the bytes of a manifest, which signatures cover, and the decoded manifest."""
    where = f"{location.url}/{MANIFEST}"
    try:
        data = location.read_bytes(MANIFEST, limit=MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(
            f"{location.url} is not an artifact: it has no {MANIFEST}.\n"
            "Pass a key or prefix listed by `gsx ls`, or a directory that holds a manifest."
        ) from error
    except OSError as error:
        raise ArtifactError(f"{where} cannot be read: {error.strerror or error}") from error
    return data, decode_manifest(data, where)


def find_size_problems(location: Location, manifest: Manifest) -> list[Problem]:
    """Return files of the manifest that are missing, not regular, or of the wrong size."""
    return _compare_sizes(location, location.sizes(), manifest)


def find_file_problems(location: Location, manifest: Manifest) -> list[Problem]:
    """Return all problems of the files at ``location``, including wrong hashes and extra files."""
    return verify_files(location, manifest).problems


def verify_files(
    location: Location, manifest: Manifest, known: Mapping[str, FileStamp] | None = None
) -> Verification:
    """Compare every file at ``location`` with the manifest.

    Local files that still have their stamp in ``known`` are not hashed again.
    """
    known = known or {}
    current = {} if location.local is None else current_stamps(location)
    sizes = {path: s.size for path, s in current.items()} if current else location.sizes()
    problems = _compare_sizes(location, sizes, manifest)
    expected = {*manifest.files, MANIFEST, *SIDECARS}
    unlisted = sizes.keys() - expected
    caches = {path for path in unlisted if sizes[path] >= 0 and _is_cache(path, manifest)}
    problems += [Problem(path, "is not listed in the manifest") for path in unlisted - caches]
    problems += [
        Problem(name, "is not a regular file (links are not allowed)")
        for name in SIDECARS
        if sizes.get(name, 0) < 0
    ]
    damaged = {problem.path for problem in problems}
    stamps = {}
    for path, entry in manifest.files.items():
        if path in damaged:
            continue
        if path in known and known[path] == current.get(path):
            stamps[path] = known[path]
            continue
        stamp, what = _hash(location, path, entry)
        if what is not None:
            problems.append(Problem(path, what))
        elif stamp is not None:
            stamps[path] = stamp
    if location.local is not None:
        hashes = {path: (entry.size, entry.sha256) for path, entry in manifest.files.items()}
        location = location.with_verified(VerifiedFiles(hashes, stamps))
    by_path = sorted(problems, key=lambda problem: problem.path)
    return Verification(by_path, location, tuple(sorted(caches)))


def _is_cache(path: str, manifest: Manifest) -> bool:
    """Return whether an unlisted file is in a directory that readers of exports write to."""
    return manifest.kind == EXPORT and CACHE_DIRECTORY in path.split("/")[:-1]


def current_stamps(location: Location) -> dict[str, FileStamp]:
    """Return the stamps of all files of a local artifact; an irregular file has size -1."""
    return {
        path: FileStamp.of(status, size=None if stat.S_ISREG(status.st_mode) else -1)
        for path, status in walk(Path(location.anchor), location.inner)
    }


def raise_if_damaged(location: Location, problems: list[Problem]) -> None:
    """Raise an ArtifactError that lists ``problems``, if there are any."""
    if not problems:
        return
    shown = [f"  {problem.path} {problem.what}" for problem in problems[:8]]
    more = [f"  … and {len(problems) - 8} more"] if len(problems) > 8 else []
    raise ArtifactError(
        "\n".join(
            [
                f"{location.url} is damaged:",
                *shown,
                *more,
                "Nothing was read. Get the artifact from its source again, or rebuild it with "
                "`--force`.",
            ]
        )
    )


def _compare_sizes(
    location: Location, sizes: Mapping[str, int], manifest: Manifest
) -> list[Problem]:
    problems, is_local = [], location.local is not None
    for path, entry in manifest.files.items():
        size = sizes.get(path)
        if size is None and is_local and os.path.lexists(location.path(path)):
            size = -1  # a directory, or behind a link
        problem = _compare_size(path, size, entry.size)
        if problem is not None:
            problems.append(problem)
    return problems


def _compare_size(path: str, actual: int | None, expected: int) -> Problem | None:
    if actual is None:
        return Problem(path, "is missing")
    if actual < 0:
        return Problem(path, "is not a regular file (links are not allowed)")
    if actual != expected:
        return Problem(path, f"has {actual} bytes; the manifest lists {expected}")
    return None


def _hash(location: Location, path: str, entry: FileEntry) -> tuple[FileStamp | None, str | None]:
    """Return the stamp of a file whose hash is that of the manifest, or what is wrong with it."""
    stamp = None
    try:
        with translate_remote_errors(location), location.open(path) as stream:
            if location.local is not None:
                stamp = stamp_of(stream)
            actual = sha256_stream(stream, limit=entry.size + 1)
            if stamp is not None and stamp_of(stream) != stamp:
                return None, "changed while it was hashed"
    except OSError as error:
        return None, f"cannot be read: {error.strerror or error}"
    except StoreError as error:
        return None, f"cannot be read: {error}"
    if actual != (entry.size, entry.sha256):
        return None, "does not match the SHA-256 in the manifest"
    return stamp, None
