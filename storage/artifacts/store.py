"""Stores: artifacts by kind and key, in a local directory or behind any fsspec URL.

Layout: ``<store>/<kind>/<name>/``. The name is the first half of the key; ``<name>.g2``, ``.g3``
and so on are generations built with ``--force``. Names with a leading dot are internal.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.limits import LIST
from gsx.storage.artifacts.folders import has_mode, is_path_or_url, subdirectories
from gsx.storage.artifacts.lineage_records import read_recorded
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import KIND, MANIFEST, Manifest
from gsx.storage.artifacts.origin import read_origin
from gsx.storage.artifacts.tags import Tag, is_tag_name, read_tag, tag_names
from gsx.storage.artifacts.verification_cache import known_stamps, mark_verified
from gsx.storage.artifacts.verify_files import (
    find_size_problems,
    raise_if_damaged,
    read_manifest,
    verify_files,
)

DEFAULT_STORE = "artifacts"
NAME_LENGTH = 32
"""Hexadecimal digits of a key in a folder name (128 bits); paths then fit a terminal line."""
MIN_PREFIX = 4
"""Minimum length of a key prefix that selects an artifact."""
MAX_WEB_GENERATIONS = 100
"""Generations of a key that are tried on a web server."""
_HEX = re.compile(r"[0-9a-f]*")
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
        manifest = artifact.manifest
        if location.local is None:
            raise_if_damaged(location, find_size_problems(location, manifest))
            return artifact
        known = known_stamps(location, manifest)
        verification = verify_files(location, manifest, known)
        raise_if_damaged(location, verification.problems)
        if verification.stamps != known:
            mark_verified(location, manifest, verification.stamps)
        return cls(verification.location, manifest)

    @classmethod
    def peek(cls, location: Location, manifest: Manifest | None = None) -> Artifact:
        """Read only the manifest at ``location``; a folder named by a key must match that key.

        ``manifest`` is the manifest if it was read before.
        """
        manifest = manifest or read_manifest(location)
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
        if self.location.local is not None:
            yield from self._local_entries()
            return
        entries = []
        for path in self.location.glob(f"*/*/{MANIFEST}"):
            kind, folder = path.removesuffix(f"/{MANIFEST}").split("/")[-2:]
            match = _FOLDER.fullmatch(folder)
            if match and KIND.fullmatch(kind):
                entries.append((kind, match[1], int(match[2] or 1)))
        yield from sorted(entries)

    def _local_entries(self) -> Iterator[tuple[str, str, int]]:
        for kind in subdirectories(self._require_folder(), missing_ok=(FileNotFoundError,)):
            if KIND.fullmatch(kind):
                yield from ((kind, *entry) for entry in self._local_folders(kind))

    def _require_folder(self) -> Path:
        """Return the local folder of the store; raise StoreError if it is a file."""
        root = Path(self.location.root)
        if has_mode(root, lambda mode: not stat.S_ISDIR(mode)):
            raise StoreError(
                f"{self.location.url} is a file, not a store.\n"
                "Pass a directory with `--store DIR` or GSX_STORE."
            )
        try:
            root.stat()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(
                f"cannot read the store {self.location.url}: {error.strerror}"
            ) from error
        return root

    def _local_folders(self, kind: str, name: str = "") -> list[tuple[str, int]]:
        """Return name and generation of the artifacts of a kind, sorted; of all names by default.

        A link is not an artifact.
        """
        root = self._require_folder()
        matches = map(_FOLDER.fullmatch, subdirectories(root / kind, prefix=name))
        return sorted(
            (match[1], int(match[2] or 1))
            for match in matches
            if match and os.path.lexists(root / kind / match[0] / MANIFEST)
        )

    def artifacts(self, kind: str | None = None) -> Iterator[Artifact]:
        """Yield published artifacts without verifying their files; invalid manifests raise."""
        for entry in self.entries():
            if kind in (None, entry[0]):
                yield self.peek_at(self.folder(*entry))

    def generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key, oldest first."""
        wanted = (kind, key[:NAME_LENGTH])
        if self.location.local is not None:
            return [generation for _, generation in self._local_folders(*wanted)]
        return sorted(
            int(match[2] or 1)
            for path in self.location.child(kind).paths_with_prefix(wanted[1])
            if path.endswith(f"/{MANIFEST}")
            and (match := _FOLDER.fullmatch(path.removesuffix(f"/{MANIFEST}").rpartition("/")[2]))
            and match[1] == wanted[1]
        )

    def reusable_generations(self, kind: str, key: str) -> list[int]:
        """Return the generations of a key that may be used in place of a build, oldest first.

        These are the ones built in this store, and pulled ones that the user trusts.
        """
        return [
            generation
            for generation in self.generations(kind, key)
            if _is_reusable(self.folder(kind, key, generation))
        ]

    def find(self, kind: str, key: str) -> Artifact | None:
        """Return the newest generation of a key that may be used in place of a build, or None."""
        generations = self.reusable_generations(kind, key)
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

    def contains(self, artifact: Artifact) -> bool:
        """Return whether an artifact is stored below the location of the store."""
        below = artifact.location.root.startswith(f"{self.location.root}/")
        return below and artifact.location.fs == self.location.fs

    def recorded(self, kind: str, digest: str) -> Manifest | None:
        """Return the manifest of an input that the store does not hold, if it was recorded."""
        return read_recorded(self.location, kind, digest)

    def peek_at(self, location: Location, manifest: Manifest | None = None) -> Artifact:
        """Read only the manifest at ``location``; inside this store its kind must match."""
        artifact = Artifact.peek(location, manifest)
        self._require_kind(artifact)
        return artifact

    def resolve(self, name: str, *, kind: str | None = None) -> Artifact:
        """Open an artifact given by directory, URL, tag, key or key prefix."""
        location = self.locate(name, kind=kind)
        prefix = name.lower().partition(".g")[0]
        key_prefix = prefix if not is_path_or_url(name) and _HEX.fullmatch(prefix) else ""
        artifact = self._open(location, key_prefix)
        if kind not in (None, artifact.manifest.kind):
            raise ArtifactError(
                f"{artifact.location.url} is {_with_article(artifact.manifest.kind)}, not "
                f"{_with_article(kind or '')}.\n"
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
        kind, _, name = path.partition("/")
        if _FOLDER.fullmatch(name) and kind != artifact.manifest.kind:
            raise ArtifactError(
                f"{artifact.location.url} is {_with_article(artifact.manifest.kind)} in the folder "
                f"of kind {kind}.\nIt was moved there: move it out of the store."
            )

    def locate(self, name: str, *, kind: str | None = None) -> Location:
        """Return the location of an artifact given as for ``resolve``, without reading it."""
        if is_path_or_url(name):
            self._require_unambiguous(name)
            return Location.at(name)
        tag = read_tag(self.location, name)
        if tag is not None:
            return self._tagged(name, tag, kind)
        if self.location.is_web and is_tag_name(name):
            raise ArtifactError(f"no tag `{name}` in {self.location.url}. Check the name.")
        prefix, _, wanted_generation = name.lower().partition(".g")
        prefix = prefix[:NAME_LENGTH]
        matches: dict[tuple[str, str], list[int]] = {}
        for entry_kind, folder, generation in self.entries():
            eligible = kind in (None, entry_kind) and wanted_generation in ("", str(generation))
            if eligible and folder.startswith(prefix):
                matches.setdefault((entry_kind, folder), []).append(generation)
        if matches and len(prefix) < MIN_PREFIX:
            raise UsageError(
                f"`{name}` is too short; type at least {MIN_PREFIX} digits of the key."
            )
        if len(matches) == 1:
            (entry_kind, folder), generations = matches.popitem()
            locations = [self.folder(entry_kind, folder, generation) for generation in generations]
            return next(filter(_is_reusable, reversed(locations)), locations[-1])
        if matches:
            shown = ", ".join(sorted(folder[:12] for _, folder in matches)[:6])
            raise UsageError(f"`{name}` is ambiguous: it matches {shown}. Type more of the key.")
        raise self._not_found(name, prefix, kind)

    def _not_found(self, name: str, prefix: str, kind: str | None) -> ArtifactError:
        """Return the error for a name that no artifact of a kind has."""
        if has_mode(Path(name), stat.S_ISDIR):
            return ArtifactError(
                f"{name} is a directory without {MANIFEST}, so it is not an artifact.\n"
                f"`gsx ls` lists the artifacts in {self.location.url}."
            )
        if kind is not None and len(prefix) >= MIN_PREFIX:
            kinds = {entry[0] for entry in self.entries() if entry[1].startswith(prefix)}
            if kinds:
                return ArtifactError(
                    f"`{name}` is {_with_article(min(kinds))}, not {_with_article(kind)}.\n"
                    f"`gsx ls --kind {kind}` lists artifacts of the right kind."
                )
        what = f"{kind} " if kind else ""
        tags = difflib.get_close_matches(name, tag_names(self.location), n=1)
        hint = f" Did you mean the tag `{tags[0]}`?" if tags else ""
        return ArtifactError(
            f"no {what}artifact `{name}` in {self.location.url}.{hint}\n"
            "`gsx ls` lists artifacts; `--store DIR` or GSX_STORE selects another store."
        )

    def _tagged(self, name: str, tag: Tag, kind: str | None) -> Location:
        """Return the location of the artifact that a tag names."""
        if kind not in (None, tag.kind):
            raise ArtifactError(
                f"the tag `{name}` is {_with_article(tag.kind)}, not {_with_article(kind or '')}.\n"
                f"`gsx ls --kind {kind}` lists artifacts of the right kind."
            )
        if self.location.is_web:  # without a listing, generations are tried in order
            deadline = time.monotonic() + LIST.value
            for generation in range(1, MAX_WEB_GENERATIONS):
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"{self.location.url}: finding {tag.text} took longer than "
                        f"{LIST.value:g} s. {LIST.advice}"
                    )
                location = self.folder(tag.kind, tag.key, generation)
                if read_manifest(location).digest == tag.digest:
                    return location
            raise ArtifactError(f"{self.location.url} does not have {tag.text} of `{name}`.")
        artifact = self.peek(tag.kind, tag.key, tag.digest)
        if artifact is None or artifact.manifest.digest != tag.digest:
            raise ArtifactError(
                f"the tag `{name}` names {tag.text}, which is not in {self.location.url} any more."
                f"\n`gsx tag --delete {name}` removes the tag."
            )
        return artifact.location

    def _require_unambiguous(self, name: str) -> None:
        """Raise UsageError if ``name`` is a directory and a tag of another artifact.

        A directory that was exported from the tagged artifact, in the layout of its kind, is a
        copy of it.
        """
        tag = None if "://" in name else read_tag(self.location, name)
        if tag is None:
            return
        manifest = read_manifest(Location.at(name))
        is_copy = manifest.stage == "export" and manifest.kind == tag.kind
        identities = {(manifest.key, manifest.digest)}
        if is_copy:
            identities |= {(parent.key, parent.digest) for parent in manifest.parents}
        if (tag.key, tag.digest) not in identities:
            raise UsageError(
                f"`{name}` is a directory, and a tag of {tag.text}. Write `./{name}` for the "
                f"directory, or `{tag.key[:12]}` for the tagged artifact."
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


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _is_reusable(location: Location) -> bool:
    """Return whether an artifact was built in its store, or may replace a build."""
    origin = read_origin(location)
    return origin is None or origin.reusable
