"""Publish to object stores: files first, the manifest last, without overwriting anything."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.digest import sha256_bytes, sha256_stream
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import MANIFEST, FileEntry, Manifest
from gsx.storage.artifacts.sidecars import read_sidecars
from gsx.storage.artifacts.verify_files import read_manifest_bytes


def upload_artifact(source: Location, target: Location, manifest: Manifest) -> bool:
    """Publish the local ``source`` at ``target``; return False if another publisher was first.

    Existing files must have the same bytes: two builders of one key may share the work, but never
    mix different files. Files that ``source`` lacks were uploaded and checked by workers.
    """
    with translate_remote_errors(target):
        present = target.sizes()
        if MANIFEST in present:
            return False
        for path, entry in manifest.files.items():
            if not source.exists(path):
                _require_uploaded(target, path, entry.size, present)
            elif path in present or not _upload(source, target, path, entry):
                require_same_content(target, path, entry.sha256)
        data, current = read_manifest_bytes(source)
        if current.digest != manifest.digest:
            raise ArtifactError(f"{source.url} changed during the upload. Nothing was published.")
        if create_file(target, MANIFEST, data):
            for name, data in read_sidecars(source).items():
                target.fs.pipe_file(target.path(name), data)
            return True
    return False


def require_create_only(store: Location) -> None:
    """Raise StoreError unless the store supports create-only writes.

    Without them two builders could overwrite each other's files.
    """
    probe = store.path(f".probe-{secrets.token_hex(8)}")
    with translate_remote_errors(store):
        try:
            store.fs.pipe_file(probe, b"1", mode="create")
        except FileNotFoundError as error:
            raise StoreError(f"{store.url} does not exist: {error}. Create it first.") from error
        try:
            store.fs.pipe_file(probe, b"2", mode="create")
        except FileExistsError:
            return
        finally:
            store.fs.rm_file(probe)
    raise StoreError(
        f"{store.url} ignores create-only writes, so two builders could overwrite each other.\n"
        "Build into a local store and copy the finished artifact there."
    )


def _upload(source: Location, target: Location, path: str, entry: FileEntry) -> bool:
    return create_file(target, path, read_verified(source, path, entry))


def read_verified(source: Location, path: str, entry: FileEntry) -> bytes:
    """Return the content of a file; raise ArtifactError if it is not that of the manifest."""
    data = source.read_bytes(path, limit=entry.size)
    if sha256_bytes(data) != entry.sha256:
        raise ArtifactError(
            f"{source.url}/{path} is damaged: it does not match the SHA-256 in the manifest. "
            "Nothing was published."
        )
    return data


def create_file(target: Location, path: str, data: bytes) -> bool:
    """Upload a file to ``target``; return False if the path already exists."""
    try:
        target.fs.pipe_file(target.path(path), data, mode="create")
    except FileExistsError:
        return False
    return True


def _require_uploaded(target: Location, path: str, size: int, present: Mapping[str, int]) -> None:
    if present.get(path) != size:
        raise StoreError(
            f"{target.url}/{path} was uploaded by a worker and has since disappeared or changed.\n"
            "Run the command again: missing shards are rebuilt."
        )


def require_same_content(target: Location, path: str, sha256: str) -> None:
    """Raise StoreError if an existing file has another SHA-256."""
    with target.open(path) as stream:
        actual = sha256_stream(stream)[1]
    if actual != sha256:
        raise StoreError(
            f"{target.url}/{path} was uploaded by another builder and has different content.\n"
            "Wait for that builder to finish, or remove the unfinished prefix, then run the "
            "command again."
        )
