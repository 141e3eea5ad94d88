"""Publish to object stores: files first, the manifest last, without overwriting anything."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from gsx.errors import StoreError
from gsx.storage.artifacts.digest import sha256_stream
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import MANIFEST, SIDECARS, Manifest


def upload_artifact(source: Path, target: Location, manifest: Manifest) -> bool:
    """Publish the directory ``source`` at ``target``; return False if another publisher was first.

    Existing files must have the same bytes: two builders of one key may share the work, but never
    mix different files. Files that ``source`` lacks were uploaded and checked by workers.
    """
    with translate_remote_errors(target):
        present = target.sizes()
        if MANIFEST in present:
            return False
        for path, entry in manifest.files.items():
            if not (source / path).exists():
                _require_uploaded(target, path, entry.size, present)
            elif path in present or not create_file(target, path, source / path):
                require_same_content(target, path, entry.sha256)
        if create_file(target, MANIFEST, source / MANIFEST):
            for name in SIDECARS:
                if (source / name).is_file():
                    target.fs.put_file(str(source / name), target.path(name))
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


def create_file(target: Location, path: str, source: Path) -> bool:
    """Upload a file to ``target``; return False if the path already exists."""
    try:
        target.fs.pipe_file(target.path(path), source.read_bytes(), mode="create")
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
