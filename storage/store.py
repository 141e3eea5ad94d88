"""The store: artifacts found by key, on a local directory or behind any fsspec URL.

Layout: ``<store>/<kind>/<name>/``, where the name is the first half of the key, and ``<name>.g2``
and so on for generations made with ``--force``. Names that start with a dot are the store's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, UsageError
from gsx.storage.manifest import MANIFEST, Manifest
from gsx.storage.place import Place
from gsx.storage.trust import is_trusted, trust
from gsx.storage.verify import find_problems, quick_problems, read_manifest, refuse

DEFAULT_STORE = "artifacts"
NAME_LENGTH = 32
"""Characters of a key that name its folder: 128 bits, and paths that fit a terminal."""
_FOLDER = re.compile(r"([0-9a-f]{32})(?:\.g([1-9][0-9]*))?")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact that is whole: its manifest was read and its files have the right sizes."""

    place: Place
    manifest: Manifest
    generation: int = 1

    @property
    def key(self) -> str:
        """The name of what made it."""
        return self.manifest.key

    @classmethod
    def open(cls, place: Place, *, generation: int = 1) -> Artifact:
        """Open the artifact at ``place``; one not made or verified here is verified now."""
        manifest = read_manifest(place)
        if place.local is None:
            refuse(place, quick_problems(place, manifest))
        elif not is_trusted(place.local, manifest):
            refuse(place, find_problems(place, manifest))
            trust(place.local, manifest)
        return cls(place, manifest, generation)


@dataclass(frozen=True, slots=True)
class Store:
    """A place that holds artifacts."""

    place: Place

    @classmethod
    def at(cls, url: str | Path | None = None) -> Store:
        """Return the store at ``url``, else the one in ``GSX_STORE``, else ``./artifacts``."""
        return cls(Place.at(url or os.environ.get("GSX_STORE") or DEFAULT_STORE))

    def folder(self, kind: str, key: str, generation: int = 1) -> Place:
        """Return where an artifact of this key lies or would lie."""
        suffix = "" if generation == 1 else f".g{generation}"
        return self.place.child(f"{kind}/{key[:NAME_LENGTH]}{suffix}")

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, name and generation of every published artifact, in order."""
        found = []
        for path in self._manifests():
            kind, folder = path.removesuffix(f"/{MANIFEST}").split("/")[-2:]
            match = _FOLDER.fullmatch(folder)
            if match and not kind.startswith("."):
                found.append((kind, match[1], int(match[2] or 1)))
        yield from sorted(found)

    def artifacts(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield published artifacts without verifying their files; damaged manifests raise."""
        for found, name, generation in self.entries():
            if kind in (None, found):
                place = self.folder(found, name, generation)
                yield Artifact(place, read_manifest(place), generation)

    def generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key, oldest first."""
        wanted = (kind, key[:NAME_LENGTH])
        return [gen for found, name, gen in self.entries() if (found, name) == wanted]

    def find(self, kind: str, key: str) -> Artifact | None:
        """Return the newest generation of a key, or None."""
        generations = self.generations(kind, key)
        if not generations:
            return None
        newest = generations[-1]
        return Artifact.open(self.folder(kind, key, newest), generation=newest)

    def peek(self, kind: str, key: str, digest: str) -> Artifact | None:
        """Return the generation of a key that has ``digest``, else the newest, else None."""
        found = None
        for generation in self.generations(kind, key):
            place = self.folder(kind, key, generation)
            found = Artifact(place, read_manifest(place), generation)
            if found.manifest.digest == digest:
                break
        return found

    def resolve(self, name: str, *, kind: str | None = None) -> Artifact:
        """Return the artifact a person means: a directory, a URL, a key, or the start of a key."""
        artifact = Artifact.open(self.locate(name, kind=kind))
        if kind not in (None, artifact.manifest.kind):
            raise ArtifactError(
                f"{artifact.place.url} is a {artifact.manifest.kind}, not a {kind}.\n"
                f"`gsx ls --kind {kind}` lists what would do."
            )
        return artifact

    def locate(self, name: str, *, kind: str | None = None) -> Place:
        """Return where the artifact a person means lies, without reading it."""
        if "://" in name or (Path(name) / MANIFEST).is_file():
            return Place.at(name)
        wanted, _, generation = name.lower().partition(".g")
        wanted = wanted[:NAME_LENGTH]
        matches: dict[tuple[str, str], int] = {}
        for found, folder, number in self.entries():
            right = kind in (None, found) and generation in ("", str(number))
            if right and folder.startswith(wanted):
                matches[found, folder] = number
        if len(matches) == 1 and len(wanted) >= 4:
            (found, folder), number = matches.popitem()
            return self.folder(found, folder, number)
        if matches:
            shown = ", ".join(sorted(folder[:12] for _, folder in matches)[:6])
            raise UsageError(f"`{name}` could be any of {shown}. Type more of the key.")
        if Path(name).is_dir():
            raise ArtifactError(
                f"{name} is a directory without {MANIFEST}, so it is not an artifact.\n"
                f"Artifacts in {self.place.url} are listed by `gsx ls`."
            )
        what = f"{kind} " if kind else ""
        raise ArtifactError(
            f"no {what}artifact `{name}` in {self.place.url}.\n"
            "`gsx ls` lists what is there; `--store DIR` or GSX_STORE names another store."
        )

    def all_places(self) -> list[Place]:
        """Return where every published artifact lies."""
        return [self.folder(*entry) for entry in self.entries()]

    def latest(self, kind: str) -> Artifact:
        """Return the artifact of a kind that was published last."""
        found = [self.folder(*entry) for entry in self.entries() if entry[0] == kind]
        if not found:
            raise ArtifactError(f"no {kind} in {self.place.url}; `gsx ls` lists what is there.")
        return Artifact.open(max(found, key=lambda p: p.fs.modified(p.path(MANIFEST))))

    def _manifests(self) -> list[str]:
        if self.place.local is not None:
            root = self.place.local
            return [str(path) for path in root.glob(f"[!.]*/*/{MANIFEST}")]
        self.place.fs.invalidate_cache()
        return [str(path) for path in self.place.fs.glob(f"{self.place.root}/*/*/{MANIFEST}")]
