"""Atomic directories outside a store: filled under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.atomic_files import fsync_directory, remove_tree
from gsx.storage.artifacts.manifest import MANIFEST, MAX_MANIFEST_BYTES, decode_manifest


def require_empty_target(target: Path) -> None:
    """Raise StoreError unless ``target`` is new or empty, not a link and outside artifacts."""
    if target.is_dir() and not target.is_symlink() and any(target.iterdir()):
        raise StoreError(
            f"{target} is not empty; nothing was written. Choose an empty or new directory."
        )
    if target.is_symlink():
        raise StoreError(f"{target} is a symbolic link; nothing was written. Choose a directory.")
    existing = next(path for path in (target, *target.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise StoreError(
            f"{existing} is not a directory; nothing was written. Choose another directory."
        )
    _require_outside_artifacts(target)


def require_file_target(target: Path) -> None:
    """Raise StoreError if ``target`` is a directory or inside an artifact."""
    if target.is_dir():
        raise StoreError(f"{target} is a directory; nothing was written. Choose a file name.")
    _require_outside_artifacts(target)


def _require_outside_artifacts(target: Path) -> None:
    for folder in Path(os.path.realpath(target)).parents:
        if _is_artifact(folder):
            raise StoreError(
                f"{target} is inside the artifact {folder}, which may only contain the files of "
                "its manifest; nothing was written. Choose a path outside of it."
            )


def _is_artifact(folder: Path) -> bool:
    file = folder / MANIFEST
    if not file.is_file() or file.stat().st_size > MAX_MANIFEST_BYTES:
        return False
    try:
        decode_manifest(file.read_bytes(), str(file))
    except (ArtifactError, OSError):
        return False
    return True


@contextlib.contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """Yield a temporary directory that is renamed to ``target`` if the block succeeds."""
    require_empty_target(target)
    target = Path(os.path.abspath(target))  # noqa: PTH100  (links must not be resolved)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        remove_tree(draft)
        draft.mkdir()
        yield draft
        if target.is_dir():
            target.rmdir()
        draft.rename(target)
    finally:
        remove_tree(draft)
    fsync_directory(target.parent)
