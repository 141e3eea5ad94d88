"""The store: artifacts found by key, on a local directory or behind any fsspec URL.

Layout: ``<store>/<kind>/<key>/`` for the first generation of a key and ``<key>.g2`` and so on for
those made with ``--force``. Names that start with a dot are the store's own.
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
_FOLDER = re.compile(r"([0-9a-f]{64})(?:\.g([1-9][0-9]*))?")


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
        return self.place.child(f"{kind}/{key}{suffix}")

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, key and generation of every published artifact, in order."""
        found = []
        for path in self._manifests():
            kind, folder = path.removesuffix(f"/{MANIFEST}").split("/")[-2:]
            match = _FOLDER.fullmatch(folder)
            if match and not kind.startswith("."):
                found.append((kind, match[1], int(match[2] or 1)))
        yield from sorted(found)

    def artifacts(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield published artifacts without verifying their files; damaged manifests raise."""
        for found, key, generation in self.entries():
            if kind in (None, found):
                place = self.folder(found, key, generation)
                yield Artifact(place, read_manifest(place), generation)

    def generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key, oldest first."""
        return [gen for found, name, gen in self.entries() if (found, name) == (kind, key)]

    def find(self, kind: str, key: str) -> Artifact | None:
        """Return the newest generation of a key, or None."""
        generations = self.generations(kind, key)
        if not generations:
            return None
        newest = generations[-1]
        return Artifact.open(self.folder(kind, key, newest), generation=newest)

    def resolve(self, name: str, *, kind: str | None = None) -> Artifact:
        """Return the artifact a person means: a directory, an URL, a key, or the start of a key."""
        if "://" in name or (Path(name) / MANIFEST).is_file():
            return Artifact.open(Place.at(name))
        wanted, _, generation = name.lower().partition(".g")
        matches = {
            (found, key)
            for found, key, gen in self.entries()
            if key.startswith(wanted)
            and kind in (None, found)
            and (not generation or str(gen) == generation)
        }
        if len(matches) == 1 and len(wanted) >= 4:
            found, key = matches.pop()
            newest = int(generation) if generation else self.generations(found, key)[-1]
            return Artifact.open(self.folder(found, key, newest), generation=newest)
        if len(matches) > 1 or (matches and len(wanted) < 4):
            shown = ", ".join(sorted(key[:12] for _, key in matches)[:6])
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

    def _manifests(self) -> list[str]:
        if self.place.local is not None:
            root = self.place.local
            return [str(path) for path in root.glob(f"[!.]*/*/{MANIFEST}")]
        self.place.fs.invalidate_cache()
        return [str(path) for path in self.place.fs.glob(f"{self.place.root}/*/*/{MANIFEST}")]
