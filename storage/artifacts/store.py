"""Stores: artifacts by kind and key, in a local directory or behind any fsspec URL.

Layout: ``<store>/<kind>/<name>/``. The name is the first half of the key; ``<name>.g2``, ``.g3``
and so on are generations built with ``--force``. Names with a leading dot are internal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import KIND, MANIFEST, Manifest
from gsx.storage.artifacts.verification_cache import is_verified, mark_verified
from gsx.storage.artifacts.verify_files import (
    find_file_problems,
    find_size_problems,
    raise_if_damaged,
    read_manifest,
)

DEFAULT_STORE = "artifacts"
NAME_LENGTH = 32
"""Hexadecimal digits of a key in a folder name (128 bits); paths then fit a terminal line."""
MIN_PREFIX = 4
"""Minimum length of a key prefix that selects an artifact."""
_FOLDER = re.compile(r"([0-9a-f]{32})(?:\.g([2-9]|[1-9][0-9]+))?")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A published artifact; ``open`` verifies its files, ``peek`` reads only its manifest."""

    location: Location
    manifest: Manifest

    @property
    def key(self) -> str:
        """The key of the artifact."""
        return self.manifest.key

    @property
    def generation(self) -> int:
        """Generation of the key, counted from 1; 1 outside a store."""
        match = _FOLDER.fullmatch(_folder_name(self.location))
        return int(match[2] or 1) if match else 1

    @classmethod
    def open(cls, location: Location) -> Artifact:
        """Open the artifact at ``location`` and verify it unless this machine already has."""
        artifact = cls.peek(location)
        if location.local is None:
            raise_if_damaged(location, find_size_problems(location, artifact.manifest))
        elif not is_verified(location.local, artifact.manifest):
            raise_if_damaged(location, find_file_problems(location, artifact.manifest))
            mark_verified(location.local, artifact.manifest)
        return artifact

    @classmethod
    def peek(cls, location: Location) -> Artifact:
        """Read only the manifest at ``location``; a folder named by a key must match that key."""
        manifest = read_manifest(location)
        match = _FOLDER.fullmatch(_folder_name(location))
        if match and not manifest.key.startswith(match[1]):
            raise ArtifactError(
                f"{location.url} holds {manifest.kind} {manifest.key[:12]}, whose key does not "
                "match the folder name.\nIt was renamed or replaced: move it out of the store."
            )
        return cls(location, manifest)


def _folder_name(location: Location) -> str:
    return location.root.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Store:
    """A location that holds artifacts by kind and key."""

    location: Location

    @classmethod
    def at(cls, url: str | Path | None = None) -> Store:
        """Return the store at ``url``, else at ``GSX_STORE``, else at ``./artifacts``."""
        return cls(Location.at(url or os.environ.get("GSX_STORE") or DEFAULT_STORE))

    def folder(self, kind: str, key: str, generation: int = 1) -> Location:
        """Return the location of an artifact, whether or not it exists."""
        suffix = "" if generation == 1 else f".g{generation}"
        return self.location.child(f"{kind}/{key[:NAME_LENGTH]}{suffix}")

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, name and generation of every published artifact, sorted."""
        entries = []
        for path in self._manifests():
            kind, folder = path.removesuffix(f"/{MANIFEST}").split("/")[-2:]
            match = _FOLDER.fullmatch(folder)
            if match and KIND.fullmatch(kind):
                entries.append((kind, match[1], int(match[2] or 1)))
        yield from sorted(entries)

    def artifacts(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield published artifacts without verifying their files; invalid manifests raise."""
        for entry in self.entries():
            if kind in (None, entry[0]):
                yield self.peek_at(self.folder(*entry))

    def generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key, oldest first."""
        wanted = (kind, key[:NAME_LENGTH])
        return [
            generation
            for entry_kind, name, generation in self.entries()
            if (entry_kind, name) == wanted
        ]

    def find(self, kind: str, key: str) -> Artifact | None:
        """Return the newest generation of a key, or None."""
        generations = self.generations(kind, key)
        if not generations:
            return None
        return self._open(self.folder(kind, key, generations[-1]), key)

    def peek(self, kind: str, key: str, digest: str) -> Artifact | None:
        """Return the generation of a key with ``digest``, else the newest, else None."""
        artifact = None
        for generation in self.generations(kind, key):
            artifact = self.peek_at(self.folder(kind, key, generation))
            if artifact.manifest.digest == digest:
                break
        return artifact

    def peek_at(self, location: Location) -> Artifact:
        """Read only the manifest at ``location``; inside this store its kind must match."""
        artifact = Artifact.peek(location)
        self._require_kind(artifact)
        return artifact

    def resolve(self, name: str, *, kind: str | None = None) -> Artifact:
        """Open an artifact given by directory, URL, key or key prefix."""
        location = self.locate(name, kind=kind)
        key_prefix = "" if _is_path_or_url(name) else name.lower().partition(".g")[0]
        artifact = self._open(location, key_prefix)
        if kind not in (None, artifact.manifest.kind):
            raise ArtifactError(
                f"{artifact.location.url} is a {artifact.manifest.kind}, not a {kind}.\n"
                f"`gsx ls --kind {kind}` lists artifacts of the right kind."
            )
        return artifact

    def _open(self, location: Location, key: str) -> Artifact:
        artifact = Artifact.open(location)
        self._require_kind(artifact)
        if not artifact.key.startswith(key):
            raise ArtifactError(
                f"no artifact `{key}` in {self.location.url}; the closest key is {artifact.key}."
            )
        return artifact

    def _require_kind(self, artifact: Artifact) -> None:
        path = artifact.location.root.removeprefix(f"{self.location.root}/")
        kind, _, rest = path.partition("/")
        if _FOLDER.fullmatch(rest) and kind != artifact.manifest.kind:
            raise ArtifactError(
                f"{artifact.location.url} is a {artifact.manifest.kind} in the folder of kind "
                f"{kind}.\nIt was moved there: move it out of the store."
            )

    def locate(self, name: str, *, kind: str | None = None) -> Location:
        """Return the location of an artifact given as for ``resolve``, without reading it."""
        if _is_path_or_url(name):
            return Location.at(name)
        prefix, _, wanted_generation = name.lower().partition(".g")
        prefix = prefix[:NAME_LENGTH]
        matches: dict[tuple[str, str], int] = {}
        for entry_kind, folder, generation in self.entries():
            eligible = kind in (None, entry_kind) and wanted_generation in ("", str(generation))
            if eligible and folder.startswith(prefix):
                matches[entry_kind, folder] = generation
        if matches and len(prefix) < MIN_PREFIX:
            raise UsageError(
                f"`{name}` is too short; type at least {MIN_PREFIX} digits of the key."
            )
        if len(matches) == 1:
            (entry_kind, folder), generation = matches.popitem()
            return self.folder(entry_kind, folder, generation)
        if matches:
            shown = ", ".join(sorted(folder[:12] for _, folder in matches)[:6])
            raise UsageError(f"`{name}` is ambiguous: it matches {shown}. Type more of the key.")
        if _has_mode(Path(name), stat.S_ISDIR):
            raise ArtifactError(
                f"{name} is a directory without {MANIFEST}, so it is not an artifact.\n"
                f"`gsx ls` lists the artifacts in {self.location.url}."
            )
        what = f"{kind} " if kind else ""
        raise ArtifactError(
            f"no {what}artifact `{name}` in {self.location.url}.\n"
            "`gsx ls` lists artifacts; `--store DIR` or GSX_STORE selects another store."
        )

    def all_locations(self) -> list[Location]:
        """Return the locations of all published artifacts."""
        return [self.folder(*entry) for entry in self.entries()]

    def latest(self, kind: str) -> Artifact:
        """Return the most recently published artifact of a kind."""
        candidates = [self.folder(*entry) for entry in self.entries() if entry[0] == kind]
        if not candidates:
            raise ArtifactError(f"no {kind} in {self.location.url}; `gsx ls` lists artifacts.")
        with translate_remote_errors(self.location):
            newest = max(
                candidates, key=lambda location: location.fs.modified(location.path(MANIFEST))
            )
        return self._open(newest, "")

    def _manifests(self) -> list[str]:
        root = self.location.local
        if root is None:
            with translate_remote_errors(self.location):
                self.location.fs.invalidate_cache()
                pattern = f"{self.location.root}/*/*/{MANIFEST}"
                return [str(path) for path in self.location.fs.glob(pattern)]
        if _has_mode(root, lambda mode: not stat.S_ISDIR(mode)):
            raise StoreError(
                f"{self.location.url} is a file, not a store.\n"
                "Pass a directory with `--store DIR` or GSX_STORE."
            )
        try:
            os.scandir(root).close()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"cannot read the store {self.location.url}: {error.strerror}"
            ) from error
        return [str(path) for path in root.glob(f"[!.]*/*/{MANIFEST}")]


def _is_path_or_url(name: str) -> bool:
    """Return whether ``name`` is a URL or a directory with a manifest, not a key."""
    return "://" in name or _has_mode(Path(name) / MANIFEST, lambda mode: not stat.S_ISDIR(mode))


def _has_mode(path: Path, test: Callable[[int], bool]) -> bool:
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):  # missing, too long, or not a valid path
        return False
