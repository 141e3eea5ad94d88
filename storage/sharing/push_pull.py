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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.atomic_files import fsync_file, translate_os_errors
from gsx.storage.artifacts.digest import CHUNK, sha256_bytes, sha256_file
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import MANIFEST, FileEntry, Manifest
from gsx.storage.artifacts.origin import Origin, read_origin, record_origin
from gsx.storage.artifacts.publish import LOCKS, lock_path, publish_directory
from gsx.storage.artifacts.publish_remote import require_create_only, upload_artifact
from gsx.storage.artifacts.safe_files import (
    make_directory,
    regular_sizes,
    remove_beneath,
    remove_links,
)
from gsx.storage.artifacts.sidecars import read_sidecars
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import (
    find_size_problems,
    raise_if_damaged,
    read_manifest_bytes,
)

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

TRANSFERS = ".transfers"
PARALLEL_DOWNLOADS = 4
"""Files downloaded in parallel, to hide the latency of object stores."""
_MIN_FREE = 64 << 20
"""Bytes that must stay free on a disk."""
_KEPT = "Nothing was published; finished files are kept. Run the command again to resume."


def push(artifact: Artifact, to: Store, *, probe: bool = True) -> tuple[Artifact, bool]:
    """Copy a local artifact into another store; return the copy and whether it already existed.

    ``probe`` checks that an object store supports create-only writes, which takes three requests.
    """
    if to.location.local is not None:
        return pull(artifact.location, to)
    if artifact.location.local is None:
        raise UsageError(
            f"{artifact.location.url} is not on this machine. Run `gsx pull` first, then push."
        )
    generations = to.generations(artifact.manifest.kind, artifact.manifest.key)
    existing = _find_same(to, artifact.manifest) if generations else None
    if existing is not None:
        return existing, True
    raise_if_damaged(artifact.location, find_size_problems(artifact.location, artifact.manifest))
    if probe:
        require_create_only(to.location)
    target = _next_generation(to, artifact.manifest, generations)
    if not upload_artifact(artifact.location, target, artifact.manifest):
        raise StoreError(f"another publisher was first at {target.url}. Run the command again.")
    return Artifact(target, artifact.manifest), False


def pull(
    source: Location,
    into: Store,
    *,
    key: PublicKey | None = None,
    max_bytes: int | None = None,
    reuse: bool = False,
) -> tuple[Artifact, bool]:
    """Copy the artifact at ``source`` into a local store.

    Return the copy and whether it already existed. With ``key``, the signature of the manifest is
    verified before any file is read. The copy replaces a build of the same key only with ``key`` or
    ``reuse``.
    """
    if into.location.local is None:
        raise UsageError(f"{into.location.url} is remote. Pull into a local store, then push.")
    data, manifest = read_manifest_bytes(source)
    if key is not None:
        from gsx.storage.sharing.signing import check_signature, read_signature

        check_signature(data, read_signature(source), key, source.url)
    origin = Origin(
        source=source.url if source.local is None else source.root,
        date=datetime.now(tz=UTC).date().isoformat(),
        signed_by=key.name if key is not None else "",
        reusable=reuse or key is not None,
    )
    root = into.location.local
    with translate_os_errors(str(root), consequence=_KEPT):
        root.mkdir(parents=True, exist_ok=True)
        for name in (TRANSFERS, LOCKS):
            make_directory(root, name)
        content = root / TRANSFERS / manifest.digest[:32]
        with FileLock(lock_path(content)):
            generations = into.generations(manifest.kind, manifest.key)
            existing = _find_same(into, manifest) if generations else None
            if existing is not None:
                _raise_trust(existing, origin)
                return existing, True
            _require_space(root, manifest, max_bytes)
            make_directory(root, f"{TRANSFERS}/{content.name}")
            _download(source, manifest, content)
            _write_manifest(source, data, content)
            target = _next_generation(into, manifest, generations)
            record_origin(target, origin)
            publish_directory(content, target)
    mark_verified(target, manifest)
    return Artifact(target, manifest), False


def _raise_trust(existing: Artifact, origin: Origin) -> None:
    """Let a pulled artifact replace builds if this pull allows it and the earlier one did not."""
    recorded = read_origin(existing.location)
    if recorded is not None and origin.reusable and not recorded.reusable:
        record_origin(existing.location, origin)


def _find_same(store: Store, manifest: Manifest) -> Artifact | None:
    """Return the verified artifact with the same content in a store, or None."""
    artifact = store.peek(manifest.kind, manifest.key, manifest.digest)
    if artifact is None or artifact.manifest.digest != manifest.digest:
        return None
    return Artifact.open(artifact.location)


def _next_generation(store: Store, manifest: Manifest, existing: list[int]) -> Location:
    """Return the location of the generation after the ``existing`` ones of a key."""
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
    remove_links(content)
    for path in list(regular_sizes(content)):
        if path not in manifest.files:
            remove_beneath(content, path)
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
    # Paths in a manifest never start with a dot.
    partial = target.with_name(f".{sha256_bytes(name.encode())[:32]}.part")
    try:
        with partial.open("wb") as stream:
            digest = hashlib.sha256()
            for chunk in _content(source, name, entry.size):
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != entry.sha256:
            raise ArtifactError(
                f"{source.url}/{name} does not match the SHA-256 in the manifest: it is damaged or "
                "was changed. Nothing was published. Ask for an intact copy of the artifact."
            )
        fsync_file(partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _content(source: Location, name: str, size: int) -> Iterator[bytes]:
    """Yield the chunks of a file of exactly ``size`` bytes; a small remote one in one request."""
    if source.local is None and not source.is_web and size < CHUNK:
        with contextlib.suppress(FileNotFoundError, ArtifactError):
            data = source.read_bytes(name, limit=size)
            if len(data) == size:
                yield data
                return
    yield from _chunks(source, name, size)


def _chunks(source: Location, name: str, size: int) -> Iterator[bytes]:
    """Yield the chunks of a file of exactly ``size`` bytes; stop reading a longer file early."""
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


def _write_manifest(source: Location, manifest: bytes, content: Path) -> None:
    """Write the original bytes of the manifest, and a valid run record and signature."""
    for name, data in {**read_sidecars(source), MANIFEST: manifest}.items():
        (content / name).write_bytes(data)
        fsync_file(content / name)
