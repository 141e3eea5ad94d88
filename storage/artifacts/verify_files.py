"""Check an artifact: every file is there, alone, plain, and has the bytes the manifest names."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.storage.artifacts.digest import sha256_file, sha256_stream
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SIDECARS,
    Manifest,
    decode_manifest,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an artifact."""

    path: str
    what: str


def read_manifest(place: Place) -> Manifest:
    """Read and check the manifest of the artifact at ``place``."""
    where = f"{place.url}/{MANIFEST}"
    try:
        if place.local is not None:
            _require_plain((place.local / MANIFEST).lstat().st_mode, where)
        data = place.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(
            f"{place.url} is not an artifact: it has no {MANIFEST}.\n"
            "Name a key or prefix that `gsx ls` shows, or a directory that holds a manifest."
        ) from error
    except OSError as error:
        raise ArtifactError(f"{where} cannot be read: {error.strerror or error}") from error
    return decode_manifest(data, where)


def _require_plain(mode: int, where: str) -> None:
    if stat.S_ISLNK(mode):
        raise ArtifactError(f"{where} is a link; an artifact holds plain files only.")
    if not stat.S_ISREG(mode):
        raise ArtifactError(f"{where} is not a file; an artifact holds plain files only.")


def quick_problems(place: Place, manifest: Manifest) -> list[Problem]:
    """Return files of the manifest that are missing, not plain files, or of another size."""
    if place.local is None:
        sizes = place.sizes()
        return [
            problem
            for path, entry in manifest.files.items()
            if (problem := _compare(path, sizes.get(path), entry.size))
        ]
    return [
        problem
        for path, entry in manifest.files.items()
        if (problem := _compare(path, _plain_size(place.local, path), entry.size))
    ]


def find_problems(place: Place, manifest: Manifest) -> list[Problem]:
    """Return all that is wrong with the files at ``place``: also wrong bytes and strangers."""
    problems = quick_problems(place, manifest)
    sizes = place.sizes()
    known = {*manifest.files, MANIFEST, *SIDECARS}
    problems += [Problem(path, "is not listed in the manifest") for path in sizes.keys() - known]
    problems += [
        Problem(name, "is not a plain file (links are refused)")
        for name in SIDECARS
        if sizes.get(name, 0) < 0
    ]
    damaged = {problem.path for problem in problems}
    for path, entry in manifest.files.items():
        if path not in damaged and (problem := _compare_bytes(place, path, entry.sha256)):
            problems.append(problem)
    return sorted(problems, key=lambda problem: problem.path)


def refuse(place: Place, problems: list[Problem]) -> None:
    """Raise an ArtifactError that lists ``problems``, if there are any."""
    if not problems:
        return
    shown = [f"  {problem.path} {problem.what}" for problem in problems[:8]]
    more = [f"  … and {len(problems) - 8} more"] if len(problems) > 8 else []
    raise ArtifactError(
        "\n".join(
            [
                f"{place.url} is damaged:",
                *shown,
                *more,
                "Nothing was read. Get the artifact again from its source, or make it again with "
                "`--force`.",
            ]
        )
    )


def _compare(path: str, found: int | None, expected: int) -> Problem | None:
    if found is None:
        return Problem(path, "is missing")
    if found < 0:
        return Problem(path, "is not a plain file (links are refused)")
    if found != expected:
        return Problem(path, f"has {found} bytes; the manifest says {expected}")
    return None


def _plain_size(root: Path, name: str) -> int | None:
    """Return the size of a file none of whose folders is a link; -1 for anything else."""
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


def _compare_bytes(place: Place, path: str, sha256: str) -> Problem | None:
    try:
        if place.local is not None:
            found = sha256_file(place.local / path)
        else:
            with reachable(place), place.open(path) as stream:
                found = sha256_stream(stream)[1]
    except OSError as error:
        return Problem(path, f"cannot be read: {error.strerror or error}")
    if found != sha256:
        return Problem(path, "has other bytes than the manifest says (SHA-256)")
    return None
