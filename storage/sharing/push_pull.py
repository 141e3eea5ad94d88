"""Push and pull artifacts between stores; every hash is verified before publication.

A transfer into a local store collects files in ``.transfers/<digest>``, so that it can resume after
an interruption. A transfer into an object store uploads the files first and the manifest last.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.atomic_files import fsync_file, iter_files, translate_os_errors
from gsx.storage.artifacts.digest import CHUNK, sha256_file
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SIDECARS,
    SIGNATURE,
    FileEntry,
    Manifest,
    decode_manifest,
)
from gsx.storage.artifacts.publish import lock_path, publish_directory
from gsx.storage.artifacts.publish_remote import require_create_only, upload_artifact
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import find_file_problems, raise_if_damaged, read_manifest

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

TRANSFERS = ".transfers"
PARALLEL_DOWNLOADS = 4
"""Files downloaded in parallel, to hide the latency of object stores."""
MAX_FILES = 1_000_000
_MIN_FREE = 64 << 20
"""Bytes that must stay free on a disk."""
_KEPT = "Nothing was published; finished files are kept. Run the command again to resume."


def push(artifact: Artifact, to: Store) -> tuple[Artifact, bool]:
    """Copy a local artifact into another store; return the copy and whether it already existed."""
    if to.location.local is not None:
        return pull(artifact.location, to)
    if artifact.location.local is None:
        raise UsageError(
            f"{artifact.location.url} is not on this machine. Run `gsx pull` first, then push."
        )
    existing = _find_same(to, artifact.manifest)
    if existing is not None:
        return existing, True
    raise_if_damaged(artifact.location, find_file_problems(artifact.location, artifact.manifest))
    require_create_only(to.location)
    target = _next_generation(to, artifact.manifest)
    if not upload_artifact(artifact.location.local, target, artifact.manifest):
        raise StoreError(f"another publisher was first at {target.url}. Run the command again.")
    return Artifact(target, artifact.manifest), False


def pull(
    source: Location, into: Store, *, key: PublicKey | None = None, max_bytes: int | None = None
) -> tuple[Artifact, bool]:
    """Copy the artifact at ``source`` into a local store.

    Return the copy and whether it already existed. With ``key``, the signature of the manifest is
    verified before any file is read.
    """
    if into.location.local is None:
        raise UsageError(f"{into.location.url} is remote. Pull into a local store, then push.")
    data, manifest = _read_manifest(source)
    if key is not None:
        from gsx.storage.sharing.signing import check_signature, read_signature

        check_signature(data, read_signature(source), key, source.url)
    existing = _find_same(into, manifest)
    if existing is not None:
        return existing, True
    root = into.location.local
    with translate_os_errors(str(root), consequence=_KEPT):
        content = root / TRANSFERS / manifest.digest[:32]
        lock_path(content).parent.mkdir(parents=True, exist_ok=True)
        _require_space(root, manifest, max_bytes)
        with FileLock(lock_path(content)):
            _download(source, manifest, content)
            _write_manifest(source, data, content)
            target = _next_generation(into, manifest)
            local = target.local
            assert local is not None
            publish_directory(content, local)
    mark_verified(local, manifest)
    return Artifact(target, manifest), False


def _read_manifest(source: Location) -> tuple[bytes, Manifest]:
    """Return the original bytes of a manifest, which signatures cover, and the manifest."""
    read_manifest(source)  # raises a specific error if the manifest is missing or invalid
    data = source.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    manifest = decode_manifest(data, f"{source.url}/{MANIFEST}")
    if len(manifest.files) > MAX_FILES:
        raise ArtifactError(
            f"{source.url} lists {len(manifest.files):,} files, above the limit of {MAX_FILES:,}."
        )
    return data, manifest


def _find_same(store: Store, manifest: Manifest) -> Artifact | None:
    """Return the verified artifact with the same content in a store, or None."""
    artifact = store.peek(manifest.kind, manifest.key, manifest.digest)
    if artifact is None or artifact.manifest.digest != manifest.digest:
        return None
    return Artifact.open(artifact.location)


def _next_generation(store: Store, manifest: Manifest) -> Location:
    """Return the location of the next generation of a key."""
    existing = store.generations(manifest.kind, manifest.key)
    return store.folder(manifest.kind, manifest.key, existing[-1] + 1 if existing else 1)


def _require_space(root: Path, manifest: Manifest, max_bytes: int | None) -> None:
    if max_bytes is not None and manifest.size > max_bytes:
        raise ArtifactError(
            f"the artifact has {manifest.size:,} bytes, above the limit of {max_bytes:,}. "
            "Raise `--max-bytes` to allow it."
        )
    free = shutil.disk_usage(root).free
    if manifest.size + _MIN_FREE > free:
        raise StoreError(
            f"no space left on {root}: the artifact needs {manifest.size:,} bytes, {free:,} are "
            "free. Nothing was transferred."
        )


def _download(source: Location, manifest: Manifest, content: Path) -> None:
    """Download missing files to ``content`` and remove files that do not belong to it."""
    content.mkdir(parents=True, exist_ok=True)
    for path in list(iter_files(content)):
        if path.is_symlink() or path.relative_to(content).as_posix() not in manifest.files:
            path.unlink()
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        futures = [
            pool.submit(_download_file, source, name, entry, content / name)
            for name, entry in manifest.files.items()
        ]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _download_file(source: Location, name: str, entry: FileEntry, target: Path) -> None:
    if target.is_file() and target.stat().st_size == entry.size:
        if sha256_file(target) == entry.sha256:
            return
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.part")
    try:
        with partial.open("wb") as stream:
            digest = hashlib.sha256()
            for chunk in _chunks(source, name, entry.size):
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != entry.sha256:
            raise ArtifactError(
                f"{source.url}/{name} does not match the SHA-256 in the manifest. {_KEPT}"
            )
        fsync_file(partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _chunks(source: Location, name: str, size: int) -> Iterator[bytes]:
    """Yield the chunks of a file of exactly ``size`` bytes; stop reading a longer file early."""
    if source.local is not None and _is_link(source.local, name):
        raise ArtifactError(
            f"{source.url}/{name} is a symbolic link; artifacts contain regular files only."
        )
    read = 0
    try:
        with translate_remote_errors(source), contextlib.closing(source.stream(name)) as stream:
            while chunk := stream.read(CHUNK):
                read += len(chunk)
                if read > size:
                    raise ArtifactError(
                        f"{source.url}/{name} is larger than the {size:,} bytes in the manifest. "
                        f"{_KEPT}"
                    )
                yield chunk
    except FileNotFoundError as error:
        raise ArtifactError(f"{source.url}/{name} is missing. {_KEPT}") from error
    if read < size:
        raise ArtifactError(f"{source.url}/{name} ended after {read:,} of {size:,} bytes. {_KEPT}")


def _is_link(root: Path, name: str) -> bool:
    parts = name.split("/")
    return any((root / "/".join(parts[: n + 1])).is_symlink() for n in range(len(parts)))


def _write_manifest(source: Location, manifest: bytes, content: Path) -> None:
    """Write the original bytes of the manifest, and the run record and signature if present."""
    for name in SIDECARS:
        with contextlib.suppress(FileNotFoundError):
            limit = 1 << (16 if name == SIGNATURE else 20)
            (content / name).write_bytes(source.read_bytes(name, limit=limit))
    (content / MANIFEST).write_bytes(manifest)
