"""Bundles: exported artifacts in a directory outside any store.

Files are hashed as they are written, the manifest is written last, and the directory is renamed to
its target when it is complete.
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
from gsx.storage.artifacts.atomic_files import fsync_file, translate_os_errors
from gsx.storage.artifacts.digest import CHUNK, sha256_bytes, sha256_file
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    RUN_RECORD,
    FileEntry,
    Manifest,
    check_path,
    decode_manifest,
    encode_manifest,
    files_digest,
)
from gsx.storage.artifacts.publish import Identity, StageResult
from gsx.storage.artifacts.safe_files import stamp_of
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import (
    Problem,
    find_file_problems,
    raise_if_damaged,
    read_manifest,
)
from gsx.storage.sharing.atomic_directory import atomic_directory, require_empty_target

SUMS = "SHA256SUMS"
PARALLEL_COPIES = 4
"""Files that are copied in parallel."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle under construction."""

    root: Path
    files: dict[str, FileEntry] = field(default_factory=dict)
    """Files that were written, by path."""
    fsynced: set[str] = field(default_factory=set)
    """Files that are already flushed to disk."""

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

    def copy_files(self, artifact: Artifact, names: Iterable[str]) -> None:
        """Copy files of ``artifact`` in parallel.

        Files that this machine built or verified, and that are unchanged, are not hashed again.
        """
        verified = artifact.location.verified is not None
        copy = self._copy_verified if verified else self.copy_file
        with ThreadPoolExecutor(PARALLEL_COPIES) as pool:
            futures = [pool.submit(copy, artifact, name) for name in names]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _copy_verified(self, artifact: Artifact, name: str) -> None:
        with artifact.location.open(name) as source, self._path(name).open("wb") as copy:
            stamp = stamp_of(source)
            shutil.copyfileobj(source, copy, CHUNK)
            unchanged = stamp_of(source) == stamp
        if not unchanged and sha256_file(self.root / name) != artifact.manifest.files[name].sha256:
            problem = Problem(name, "changed while it was copied")
            raise_if_damaged(artifact.location, [problem])
        fsync_file(self.root / name)
        self.files[name] = artifact.manifest.files[name]
        self.fsynced.add(name)

    def copy_file(self, artifact: Artifact, name: str) -> None:
        """Copy a file of ``artifact`` under the same name and verify its hash."""
        entry = artifact.manifest.files.get(name)
        if entry is None:
            raise_if_damaged(artifact.location, [Problem(name, "is not listed in the manifest")])
            return
        digest, size = hashlib.sha256(), 0
        with (
            translate_remote_errors(artifact.location),
            artifact.location.open(name) as source,
            self._path(name).open("wb") as copy,
        ):
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        if (size, digest.hexdigest()) != (entry.size, entry.sha256):
            problem = Problem(name, "does not match the SHA-256 in the manifest")
            raise_if_damaged(artifact.location, [problem])
        self.files[name] = entry
        self.fsynced.add(name)

    def _path(self, name: str) -> Path:
        path = self.root / check_path(name, "this export")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def build_bundle(
    target: Path,
    identity: Identity,
    fill: Callable[[Bundle], StageResult],
    *,
    run: bytes | None = None,
) -> tuple[Artifact, bool]:
    """Build the artifact at ``target`` with ``fill``; return it and whether it already existed.

    ``run`` holds the bytes of the run record.
    """
    location = Location.at(target)
    with translate_os_errors(str(target), consequence="Nothing was written there."):
        existing = _find_same_export(target, identity)
        if existing is not None:
            return existing, True
        require_empty_target(target)
        with atomic_directory(target) as root:
            bundle = Bundle(root)
            result = fill(bundle)
            bundle.add(SUMS, _sha256_sums(bundle.files))
            manifest = _manifest(identity, bundle.files, result)
            (root / MANIFEST).write_bytes(encode_manifest(manifest))
            if run is not None:
                (root / RUN_RECORD).write_bytes(run)
            _fsync_remaining(bundle)
    mark_verified(location, manifest)
    return Artifact(location, manifest), False


def _fsync_remaining(bundle: Bundle) -> None:
    """Fsync the remaining files and directories in parallel."""
    remaining = [
        path
        for path in bundle.root.rglob("*")
        if path.relative_to(bundle.root).as_posix() not in bundle.fsynced
    ]
    with ThreadPoolExecutor(2 * PARALLEL_COPIES) as pool:
        list(pool.map(fsync_file, remaining))


def _sha256_sums(files: Mapping[str, FileEntry]) -> bytes:
    """Return the content of a file for ``sha256sum --check``."""
    return "".join(f"{entry.sha256}  {name}\n" for name, entry in sorted(files.items())).encode()


def _manifest(identity: Identity, files: Mapping[str, FileEntry], result: StageResult) -> Manifest:
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
        digest=files_digest(files),
        counts=dict(result.counts),
        dropped=result.dropped,
        warnings=result.warnings,
        summary=dict(result.summary),
    )
    return decode_manifest(encode_manifest(manifest), "the manifest of the export")


def _find_same_export(target: Path, identity: Identity) -> Artifact | None:
    """Return the artifact at ``target`` if it is an intact copy of this export, of any date."""
    if not target.is_dir() or target.is_symlink():
        return None
    location = Location.at(target)
    try:
        manifest = read_manifest(location)
    except ArtifactError:
        return None
    undated = [{**config, "date": ""} for config in (manifest.config, identity.config)]
    same = (
        manifest.stage == identity.stage
        and manifest.stage_version == identity.stage_version
        and undated[0] == undated[1]
        and manifest.parents == identity.parents
    )
    intact = same and not find_file_problems(location, manifest)
    return Artifact(location, manifest) if intact else None
