"""Check an artifact: every file is there, alone, plain, and has the bytes the manifest names."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.storage.digest import sha256_file, sha256_stream
from gsx.storage.manifest import MANIFEST, MAX_MANIFEST_BYTES, RUN_RECORD, Manifest, decode_manifest
from gsx.storage.place import Place


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an artifact."""

    path: str
    what: str


def read_manifest(place: Place) -> Manifest:
    """Read and check the manifest of the artifact at ``place``."""
    where = f"{place.url}/{MANIFEST}"
    try:
        if place.local is not None and (place.local / MANIFEST).is_symlink():
            raise ArtifactError(f"{where} is a link; an artifact holds plain files only.")
        data = place.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(
            f"{place.url} is not an artifact: it has no {MANIFEST}.\n"
            "Name a key or prefix that `gsx ls` shows, or a directory that holds a manifest."
        ) from error
    return decode_manifest(data, where)


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
    known = {*manifest.files, MANIFEST, RUN_RECORD}
    problems += [
        Problem(path, "is not listed in the manifest")
        for path in place.sizes()
        if path not in known
    ]
    damaged = {problem.path for problem in problems}
    for path, entry in manifest.files.items():
        if path not in damaged and _hash(place, path) != entry.sha256:
            problems.append(Problem(path, "has other bytes than the manifest says (SHA-256)"))
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


def _hash(place: Place, path: str) -> str:
    if place.local is not None:
        return sha256_file(place.local / path)
    with place.open(path) as stream:
        return sha256_stream(stream)[1]
