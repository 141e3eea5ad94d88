"""The store: artifacts found by key, on a local directory or behind any fsspec URL.

Layout: ``<store>/<kind>/<name>/``, where the name is the first half of the key, and ``<name>.g2``
and so on for generations made with ``--force``. Names that start with a dot are the store's own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import KIND, MANIFEST, Manifest
from gsx.storage.artifacts.verification_cache import is_trusted, trust
from gsx.storage.artifacts.verify_files import find_problems, quick_problems, read_manifest, refuse

DEFAULT_STORE = "artifacts"
NAME_LENGTH = 32
"""Characters of a key that name its folder: 128 bits, and paths that fit a terminal."""
SHORTEST = 4
"""Characters of a key a person must type at least."""
_FOLDER = re.compile(r"([0-9a-f]{32})(?:\.g([2-9]|[1-9][0-9]+))?")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact that is whole: its manifest was read and its files have the right sizes."""

    place: Place
    manifest: Manifest

    @property
    def key(self) -> str:
        """The name of what made it."""
        return self.manifest.key

    @property
    def generation(self) -> int:
        """How many times its key was made, up to this one; 1 outside a store."""
        named = _FOLDER.fullmatch(_last(self.place))
        return int(named[2] or 1) if named else 1

    @classmethod
    def open(cls, place: Place) -> Artifact:
        """Open the artifact at ``place``; one not made or verified here is verified now."""
        artifact = cls.peek(place)
        if place.local is None:
            refuse(place, quick_problems(place, artifact.manifest))
        elif not is_trusted(place.local, artifact.manifest):
            refuse(place, find_problems(place, artifact.manifest))
            trust(place.local, artifact.manifest)
        return artifact

    @classmethod
    def peek(cls, place: Place) -> Artifact:
        """Read the manifest at ``place`` and no file; a folder named like a key must hold it."""
        manifest = read_manifest(place)
        named = _FOLDER.fullmatch(_last(place))
        if named and not manifest.key.startswith(named[1]):
            raise ArtifactError(
                f"{place.url} holds the {manifest.kind} {manifest.key[:12]}, which does not belong "
                "under that name.\nIt was renamed or replaced: move it out of the store."
            )
        return cls(place, manifest)


def _last(place: Place) -> str:
    return place.root.rsplit("/", 1)[-1]


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
            if match and KIND.fullmatch(kind):
                found.append((kind, match[1], int(match[2] or 1)))
        yield from sorted(found)

    def artifacts(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield published artifacts without verifying their files; damaged manifests raise."""
        for entry in self.entries():
            if kind in (None, entry[0]):
                yield self.peek_at(self.folder(*entry))

    def generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key, oldest first."""
        wanted = (kind, key[:NAME_LENGTH])
        return [gen for found, name, gen in self.entries() if (found, name) == wanted]

    def find(self, kind: str, key: str) -> Artifact | None:
        """Return the newest generation of a key, or None."""
        generations = self.generations(kind, key)
        if not generations:
            return None
        return self._open(self.folder(kind, key, generations[-1]), key)

    def peek(self, kind: str, key: str, digest: str) -> Artifact | None:
        """Return the generation of a key that has ``digest``, else the newest, else None."""
        found = None
        for generation in self.generations(kind, key):
            found = self.peek_at(self.folder(kind, key, generation))
            if found.manifest.digest == digest:
                break
        return found

    def peek_at(self, place: Place) -> Artifact:
        """Read the manifest at ``place`` and no file; in this store it must lie under its kind."""
        artifact = Artifact.peek(place)
        self._require_kind(artifact)
        return artifact

    def resolve(self, name: str, *, kind: str | None = None) -> Artifact:
        """Return the artifact a person means: a directory, a URL, a key, or the start of a key."""
        place = self.locate(name, kind=kind)
        typed = "" if _is_place(name) else name.lower().partition(".g")[0]
        artifact = self._open(place, typed)
        if kind not in (None, artifact.manifest.kind):
            raise ArtifactError(
                f"{artifact.place.url} is a {artifact.manifest.kind}, not a {kind}.\n"
                f"`gsx ls --kind {kind}` lists what would do."
            )
        return artifact

    def _open(self, place: Place, key: str) -> Artifact:
        artifact = Artifact.open(place)
        self._require_kind(artifact)
        if not artifact.key.startswith(key):
            raise ArtifactError(
                f"no artifact `{key}` in {self.place.url}; {artifact.key} only starts like it."
            )
        return artifact

    def _require_kind(self, artifact: Artifact) -> None:
        kind, _, rest = artifact.place.root.removeprefix(f"{self.place.root}/").partition("/")
        if _FOLDER.fullmatch(rest) and kind != artifact.manifest.kind:
            raise ArtifactError(
                f"{artifact.place.url} is a {artifact.manifest.kind} that lies among the "
                f"artifacts of kind {kind}.\nIt was moved there: move it out of the store."
            )

    def locate(self, name: str, *, kind: str | None = None) -> Place:
        """Return where the artifact a person means lies, without reading it."""
        if _is_place(name):
            return Place.at(name)
        wanted, _, generation = name.lower().partition(".g")
        wanted = wanted[:NAME_LENGTH]
        matches: dict[tuple[str, str], int] = {}
        for found, folder, number in self.entries():
            right = kind in (None, found) and generation in ("", str(number))
            if right and folder.startswith(wanted):
                matches[found, folder] = number
        if matches and len(wanted) < SHORTEST:
            raise UsageError(f"`{name}` is too short; type at least {SHORTEST} digits of the key.")
        if len(matches) == 1:
            (found, folder), number = matches.popitem()
            return self.folder(found, folder, number)
        if matches:
            shown = ", ".join(sorted(folder[:12] for _, folder in matches)[:6])
            raise UsageError(f"`{name}` could be any of {shown}. Type more of the key.")
        if _is(Path(name), stat.S_ISDIR):
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
        with reachable(self.place):
            newest = max(found, key=lambda place: place.fs.modified(place.path(MANIFEST)))
        return self._open(newest, "")

    def _manifests(self) -> list[str]:
        root = self.place.local
        if root is None:
            with reachable(self.place):
                self.place.fs.invalidate_cache()
                return [
                    str(path) for path in self.place.fs.glob(f"{self.place.root}/*/*/{MANIFEST}")
                ]
        if _is(root, lambda mode: not stat.S_ISDIR(mode)):
            raise StoreError(
                f"{self.place.url} is a file, not a store.\n"
                "Name a directory with `--store DIR` or GSX_STORE."
            )
        try:
            os.scandir(root).close()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot read the store {self.place.url}: {error.strerror}") from error
        return [str(path) for path in root.glob(f"[!.]*/*/{MANIFEST}")]


def _is_place(name: str) -> bool:
    """Say whether a person named a URL or a directory that holds an artifact."""
    return "://" in name or _is(Path(name) / MANIFEST, lambda mode: not stat.S_ISDIR(mode))


def _is(path: Path, test: Callable[[int], bool]) -> bool:
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):  # not there, too long, or not a path at all
        return False
