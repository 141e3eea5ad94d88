"""Artifacts between stores: every hash is checked before anything can be seen under its name.

Into a local store files are gathered in ``.transfers/<digest>``, so that an interrupted transfer
goes on where it was stopped. Into an object store they go up first and the manifest last.
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
from gsx.storage.artifacts.atomic_files import explained, flush_file, regular_files
from gsx.storage.artifacts.digest import CHUNK, sha256_file
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SIDECARS,
    SIGNATURE,
    FileEntry,
    Manifest,
    decode_manifest,
)
from gsx.storage.artifacts.publish import lock_of, move_into_place
from gsx.storage.artifacts.publish_remote import require_create_only, upload
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import trust
from gsx.storage.artifacts.verify_files import find_problems, read_manifest, refuse

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

TRANSFERS = ".transfers"
AT_ONCE = 4
"""Files in flight at once; one object store answers slowly, four do not."""
MOST_FILES = 1_000_000
_ROOM = 64 << 20
"""Bytes that must stay free on a disk."""
_KEPT = "Nothing became visible; finished files are kept, run the same command to go on."


def push(artifact: Artifact, to: Store) -> tuple[Artifact, bool]:
    """Put a local artifact into another store; return it there and whether it was there before."""
    if to.place.local is not None:
        return pull(artifact.place, to)
    if artifact.place.local is None:
        raise UsageError(
            f"{artifact.place.url} is not on this machine. `gsx pull` it first, then push."
        )
    there = _found(to, artifact.manifest)
    if there is not None:
        return there, True
    refuse(artifact.place, find_problems(artifact.place, artifact.manifest))
    require_create_only(to.place)
    target = _free_folder(to, artifact.manifest)
    if not upload(artifact.place.local, target, artifact.manifest):
        raise StoreError(f"another publisher was faster at {target.url}; run the same command.")
    return Artifact(target, artifact.manifest), False


def pull(
    source: Place, into: Store, *, key: PublicKey | None = None, most_bytes: int | None = None
) -> tuple[Artifact, bool]:
    """Bring the artifact at ``source`` into a local store, and say whether it was there before.

    With ``key``, an artifact that the key did not sign is refused before any file is read.
    """
    if into.place.local is None:
        raise UsageError(f"{into.place.url} is remote; pull into a local store, then push.")
    data, manifest = _manifest_of(source)
    if key is not None:
        from gsx.storage.sharing.signing import check_signature, read_signature

        check_signature(data, read_signature(source), key, source.url)
    there = _found(into, manifest)
    if there is not None:
        return there, True
    root = into.place.local
    with explained(str(root), lost=_KEPT):
        content = root / TRANSFERS / manifest.digest[:32]
        lock_of(content).parent.mkdir(parents=True, exist_ok=True)
        _require_room(root, manifest, most_bytes)
        with FileLock(lock_of(content)):
            _gather(source, manifest, content)
            _finish(source, data, content)
            target = _free_folder(into, manifest)
            local = target.local
            assert local is not None
            move_into_place(content, local)
    trust(local, manifest)
    return Artifact(target, manifest), False


def _manifest_of(source: Place) -> tuple[bytes, Manifest]:
    """Return the bytes of a manifest as they are, which is what was signed, and what they say."""
    read_manifest(source)  # says what is wrong, if anything is
    data = source.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    manifest = decode_manifest(data, f"{source.url}/{MANIFEST}")
    if len(manifest.files) > MOST_FILES:
        raise ArtifactError(f"{source.url} lists {len(manifest.files):,} files; refused.")
    return data, manifest


def _found(store: Store, manifest: Manifest) -> Artifact | None:
    """Return the artifact of the same content that a store holds, whole; None without."""
    found = store.peek(manifest.kind, manifest.key, manifest.digest)
    if found is None or found.manifest.digest != manifest.digest:
        return None
    return Artifact.open(found.place)


def _free_folder(store: Store, manifest: Manifest) -> Place:
    """Return the place of the next generation of a key."""
    taken = store.generations(manifest.kind, manifest.key)
    return store.folder(manifest.kind, manifest.key, taken[-1] + 1 if taken else 1)


def _require_room(root: Path, manifest: Manifest, most_bytes: int | None) -> None:
    if most_bytes is not None and manifest.size > most_bytes:
        raise ArtifactError(
            f"the artifact is {manifest.size:,} bytes, more than the {most_bytes:,} allowed. "
            "Raise `--max-bytes` if that is what you want."
        )
    free = shutil.disk_usage(root).free
    if manifest.size + _ROOM > free:
        raise StoreError(
            f"no space left on {root}: the artifact needs {manifest.size:,} bytes, {free:,} are "
            "free. Nothing was transferred."
        )


def _gather(source: Place, manifest: Manifest, content: Path) -> None:
    """Bring every file that is not there yet, and remove what does not belong."""
    content.mkdir(parents=True, exist_ok=True)
    for path in list(regular_files(content)):
        if path.is_symlink() or path.relative_to(content).as_posix() not in manifest.files:
            path.unlink()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [
            pool.submit(_fetch, source, name, entry, content / name)
            for name, entry in manifest.files.items()
        ]
        try:
            for each in waiting:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(source: Place, name: str, entry: FileEntry, target: Path) -> None:
    if target.is_file() and target.stat().st_size == entry.size:
        if sha256_file(target) == entry.sha256:
            return
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as stream:
            found = hashlib.sha256()
            for chunk in _chunks(source, name, entry.size):
                found.update(chunk)
                stream.write(chunk)
        if found.hexdigest() != entry.sha256:
            raise ArtifactError(
                f"{source.url}/{name} has other bytes than the manifest says (SHA-256). {_KEPT}"
            )
        flush_file(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _chunks(source: Place, name: str, size: int) -> Iterator[bytes]:
    """Yield a file of exactly ``size`` bytes; a longer one is never read to its end."""
    if source.local is not None and _is_link(source.local, name):
        raise ArtifactError(f"{source.url}/{name} is a link; an artifact holds plain files only.")
    read = 0
    try:
        with reachable(source), contextlib.closing(source.stream(name)) as stream:
            while chunk := stream.read(CHUNK):
                read += len(chunk)
                if read > size:
                    raise ArtifactError(
                        f"{source.url}/{name} is larger than the {size:,} bytes that the manifest "
                        f"says; refused. {_KEPT}"
                    )
                yield chunk
    except FileNotFoundError as error:
        raise ArtifactError(f"{source.url}/{name} is missing. {_KEPT}") from error
    if read < size:
        raise ArtifactError(f"{source.url}/{name} ended after {read:,} of {size:,} bytes. {_KEPT}")


def _is_link(root: Path, name: str) -> bool:
    parts = name.split("/")
    return any((root / "/".join(parts[: n + 1])).is_symlink() for n in range(len(parts)))


def _finish(source: Place, manifest: bytes, content: Path) -> None:
    """Write the manifest as it was, and what lies beside it."""
    for name in SIDECARS:
        with contextlib.suppress(FileNotFoundError):
            limit = 1 << (16 if name == SIGNATURE else 20)
            (content / name).write_bytes(source.read_bytes(name, limit=limit))
    (content / MANIFEST).write_bytes(manifest)
