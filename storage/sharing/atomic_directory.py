"""Directories outside a store: filled beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.atomic_files import flush_directory, remove_tree
from gsx.storage.artifacts.manifest import MANIFEST, MAX_MANIFEST_BYTES, decode_manifest


def refuse_unless_free(target: Path) -> None:
    """Refuse a target that holds something, or is no directory, or lies in something else."""
    if target.is_dir() and not target.is_symlink() and any(target.iterdir()):
        raise StoreError(
            f"{target} is not empty; nothing was written. Name an empty or new directory."
        )
    if target.is_symlink():
        raise StoreError(f"{target} is a link. Name a directory.")
    existing = next(path for path in (target, *target.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise StoreError(f"{existing} is not a directory. Name another.")
    _refuse_inside_an_artifact(target)


def refuse_unless_file(target: Path) -> None:
    """Refuse to write a file where a directory is, or into an artifact, which it would damage."""
    if target.is_dir():
        raise StoreError(f"{target} is a directory; nothing was written. Name a file in it.")
    _refuse_inside_an_artifact(target)


def _refuse_inside_an_artifact(target: Path) -> None:
    for folder in Path(os.path.realpath(target)).parents:
        if _is_artifact(folder):
            raise StoreError(
                f"{target} lies inside the artifact {folder}, which holds what its manifest lists "
                "and nothing else; nothing was written. Name a place outside of it."
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
def new_directory(target: Path) -> Iterator[Path]:
    """Give a directory to fill; it becomes ``target`` when the block ends, or nothing does."""
    refuse_unless_free(target)
    target = Path(os.path.abspath(target))  # noqa: PTH100  (a link must stay one)
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
    flush_directory(target.parent)
