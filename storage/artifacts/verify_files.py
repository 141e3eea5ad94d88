"""Verify the files of an artifact against its manifest."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.storage.artifacts.digest import sha256_file, sha256_stream
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SIDECARS,
    Manifest,
    decode_manifest,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of an artifact."""

    path: str
    what: str
    """Predicate of a sentence whose subject is ``path``."""


def read_manifest(location: Location) -> Manifest:
    """Read and validate the manifest of the artifact at ``location``."""
    where = f"{location.url}/{MANIFEST}"
    try:
        if location.local is not None:
            _require_regular_file((location.local / MANIFEST).lstat().st_mode, where)
        data = location.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(
            f"{location.url} is not an artifact: it has no {MANIFEST}.\n"
            "Pass a key or prefix listed by `gsx ls`, or a directory that holds a manifest."
        ) from error
    except OSError as error:
        raise ArtifactError(f"{where} cannot be read: {error.strerror or error}") from error
    return decode_manifest(data, where)


def _require_regular_file(mode: int, where: str) -> None:
    if stat.S_ISLNK(mode):
        raise ArtifactError(f"{where} is a symbolic link; artifacts contain regular files only.")
    if not stat.S_ISREG(mode):
        raise ArtifactError(f"{where} is not a file; artifacts contain regular files only.")


def find_size_problems(location: Location, manifest: Manifest) -> list[Problem]:
    """Return files of the manifest that are missing, not regular, or of the wrong size."""
    if location.local is None:
        sizes = location.sizes()
        return [
            problem
            for path, entry in manifest.files.items()
            if (problem := _compare_size(path, sizes.get(path), entry.size))
        ]
    return [
        problem
        for path, entry in manifest.files.items()
        if (problem := _compare_size(path, _regular_file_size(location.local, path), entry.size))
    ]


def find_file_problems(location: Location, manifest: Manifest) -> list[Problem]:
    """Return all problems of the files at ``location``, including wrong hashes and extra files."""
    problems = find_size_problems(location, manifest)
    sizes = location.sizes()
    expected = {*manifest.files, MANIFEST, *SIDECARS}
    problems += [Problem(path, "is not listed in the manifest") for path in sizes.keys() - expected]
    problems += [
        Problem(name, "is not a regular file (links are not allowed)")
        for name in SIDECARS
        if sizes.get(name, 0) < 0
    ]
    damaged = {problem.path for problem in problems}
    for path, entry in manifest.files.items():
        if path not in damaged and (problem := _compare_hash(location, path, entry.sha256)):
            problems.append(problem)
    return sorted(problems, key=lambda problem: problem.path)


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


def _compare_size(path: str, actual: int | None, expected: int) -> Problem | None:
    if actual is None:
        return Problem(path, "is missing")
    if actual < 0:
        return Problem(path, "is not a regular file (links are not allowed)")
    if actual != expected:
        return Problem(path, f"has {actual} bytes; the manifest lists {expected}")
    return None


def _regular_file_size(root: Path, name: str) -> int | None:
    """Return the size of a regular file below real directories; -1 for anything else."""
    path = root
    for part in name.split("/"):
        path = path / part
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return -1
    return path.lstat().st_size if stat.S_ISREG(mode) else -1


def _compare_hash(location: Location, path: str, expected: str) -> Problem | None:
    try:
        if location.local is not None:
            actual = sha256_file(location.local / path)
        else:
            with translate_remote_errors(location), location.open(path) as stream:
                actual = sha256_stream(stream)[1]
    except OSError as error:
        return Problem(path, f"cannot be read: {error.strerror or error}")
    if actual != expected:
        return Problem(path, "does not match the SHA-256 in the manifest")
    return None
