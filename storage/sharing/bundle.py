"""A bundle: a directory outside any store that holds one whole artifact, made to be given away.

Files are hashed while they are written, the manifest comes last, and the directory gets its name
only when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsx.errors import ArtifactError
from gsx.storage.artifacts.atomic_files import explained, flush_file
from gsx.storage.artifacts.digest import CHUNK, sha256_bytes, sha256_file
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    RUN_RECORD,
    FileEntry,
    Manifest,
    check_path,
    decode_manifest,
    digest_of,
    encode_manifest,
)
from gsx.storage.artifacts.publish import Identity, Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.verification_cache import is_trusted, trust
from gsx.storage.artifacts.verify_files import Problem, find_problems, read_manifest, refuse
from gsx.storage.sharing.atomic_directory import new_directory, refuse_unless_free

SUMS = "SHA256SUMS"
AT_ONCE = 4
"""Files that are copied at once."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A directory that is being filled."""

    root: Path
    files: dict[str, FileEntry] = field(default_factory=dict)
    """What was written, by path."""
    flushed: set[str] = field(default_factory=set)
    """Files that the disk already keeps."""

    def add(self, name: str, data: bytes) -> None:
        """Write a small file."""
        path = self._path(name)
        path.write_bytes(data)
        self.files[name] = FileEntry(size=len(data), sha256=sha256_bytes(data))

    def write(self, name: str, write: Callable[[Path], None], *, rows: int | None = None) -> None:
        """Write a file with ``write(path)``."""
        path = self._path(name)
        write(path)
        entry = FileEntry(size=path.stat().st_size, sha256=sha256_file(path), rows=rows)
        self.files[name] = entry

    def carry_all(self, artifact: Artifact, names: Iterable[str]) -> None:
        """Copy files of ``artifact``, some at once.

        What this machine made or verified, and nobody has touched since, is not hashed again.
        """
        copy = self._copy if _is_trusted(artifact) else self.carry
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = [pool.submit(copy, artifact, name) for name in names]
            try:
                for each in waiting:
                    each.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if copy == self._copy and not _is_trusted(artifact):
            refuse(artifact.place, [Problem(MANIFEST, "names files that changed while copied")])

    def _copy(self, artifact: Artifact, name: str) -> None:
        source = artifact.place.local
        assert source is not None
        shutil.copyfile(source / name, self._path(name))
        flush_file(self.root / name)
        self.files[name] = artifact.manifest.files[name]
        self.flushed.add(name)

    def carry(self, artifact: Artifact, name: str) -> None:
        """Copy a file of ``artifact`` under the same name; other bytes than listed are refused."""
        entry = artifact.manifest.files[name]
        digest, size = hashlib.sha256(), 0
        with (
            reachable(artifact.place),
            artifact.place.open(name) as source,
            self._path(name).open("wb") as copy,
        ):
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        if (size, digest.hexdigest()) != (entry.size, entry.sha256):
            what = "has other bytes than the manifest says (SHA-256)"
            refuse(artifact.place, [Problem(name, what)])
        self.files[name] = entry
        self.flushed.add(name)

    def _path(self, name: str) -> Path:
        path = self.root / check_path(name, "this export")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _is_trusted(artifact: Artifact) -> bool:
    return artifact.place.local is not None and is_trusted(artifact.place.local, artifact.manifest)


def make_bundle(
    target: Path, identity: Identity, fill: Callable[[Bundle], Outcome], *, run: bytes | None = None
) -> tuple[Artifact, bool]:
    """Return the artifact at ``target``, filled by ``fill``, and whether it was there before.

    ``run`` is kept beside the manifest as the run record.
    """
    with explained(str(target), lost="Nothing was written there."):
        there = _same_export(target, identity)
        if there is not None:
            return there, True
        refuse_unless_free(target)
        with new_directory(target) as root:
            bundle = Bundle(root)
            outcome = fill(bundle)
            bundle.add(SUMS, _sums(bundle.files))
            manifest = _manifest(identity, bundle.files, outcome)
            (root / MANIFEST).write_bytes(encode_manifest(manifest))
            if run is not None:
                (root / RUN_RECORD).write_bytes(run)
            _flush(bundle)
    trust(target, manifest)
    return Artifact(Place.at(target), manifest), False


def _flush(bundle: Bundle) -> None:
    """Ask the disk to keep what it does not keep yet; it answers many as fast as one."""
    waiting = [
        path
        for path in bundle.root.rglob("*")
        if path.relative_to(bundle.root).as_posix() not in bundle.flushed
    ]
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        list(pool.map(flush_file, waiting))


def _sums(files: Mapping[str, FileEntry]) -> bytes:
    """Return the lines that ``sha256sum --check`` reads."""
    return "".join(f"{entry.sha256}  {name}\n" for name, entry in sorted(files.items())).encode()


def _manifest(identity: Identity, files: Mapping[str, FileEntry], outcome: Outcome) -> Manifest:
    fields: dict[str, Any] = {
        name: getattr(identity, name) for name in ("kind", "key", "stage", "stage_version")
    }
    manifest = Manifest(
        **fields,
        config=dict(identity.config),
        parents=identity.parents,
        raw=dict(identity.raw),
        seeds=dict(identity.seeds),
        files=dict(files),
        digest=digest_of(files),
        counts=dict(outcome.counts),
        dropped=outcome.dropped,
        warnings=outcome.warnings,
        summary=dict(outcome.summary),
    )
    return decode_manifest(encode_manifest(manifest), "the manifest of the export")


def _same_export(target: Path, identity: Identity) -> Artifact | None:
    """Return the artifact at ``target`` if it is this export, whole, of whatever day."""
    if not target.is_dir() or target.is_symlink():
        return None
    place = Place.at(target)
    try:
        manifest = read_manifest(place)
    except ArtifactError:
        return None
    undated = [{**config, "date": ""} for config in (manifest.config, identity.config)]
    same = (
        manifest.stage == identity.stage
        and manifest.stage_version == identity.stage_version
        and undated[0] == undated[1]
        and manifest.parents == identity.parents
    )
    return Artifact(place, manifest) if same and not find_problems(place, manifest) else None
