"""Publishing to object stores: files first, the manifest last, and only if nobody was faster."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from gsx.errors import StoreError
from gsx.storage.artifacts.digest import sha256_stream
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import MANIFEST, SIDECARS, Manifest


def upload(source: Path, target: Place, manifest: Manifest) -> bool:
    """Publish the directory ``source`` at ``target``; False when another publisher came first.

    A file that is already there must have the same bytes: two builders of one key may share the
    work, but may never mix it. Files that ``source`` lacks were put there by workers, who checked.
    """
    with reachable(target):
        present = target.sizes()
        if MANIFEST in present:
            return False
        for path, entry in manifest.files.items():
            if not (source / path).exists():
                _require_shipped(target, path, entry.size, present)
            elif path in present or not put_new(target, path, source / path):
                require_same(target, path, entry.sha256)
        if put_new(target, MANIFEST, source / MANIFEST):
            for name in SIDECARS:
                if (source / name).is_file():
                    target.fs.put_file(str(source / name), target.path(name))
            return True
    return False


def require_create_only(store: Place) -> None:
    """Refuse a store that overwrites where it was asked to create: two builders could mix files."""
    probe = store.path(f".probe-{secrets.token_hex(8)}")
    with reachable(store):
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


def put_new(target: Place, path: str, source: Path) -> bool:
    """Create a file at ``target``; False when there is one."""
    try:
        target.fs.pipe_file(target.path(path), source.read_bytes(), mode="create")
    except FileExistsError:
        return False
    return True


def _require_shipped(target: Place, path: str, size: int, present: Mapping[str, int]) -> None:
    if present.get(path) != size:
        raise StoreError(
            f"{target.url}/{path} was put there by a worker and is not there any more.\n"
            "Run the same command again: what is missing is made anew."
        )


def require_same(target: Place, path: str, sha256: str) -> None:
    """Refuse a file of another builder that has other bytes."""
    with target.open(path) as stream:
        found = sha256_stream(stream)[1]
    if found != sha256:
        raise StoreError(
            f"{target.url}/{path} was left there by another builder and has other bytes.\n"
            "Wait until that builder is done, or remove the unfinished prefix, and run again."
        )
