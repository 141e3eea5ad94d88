"""Atomic directories outside a store: filled under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.atomic_files import fsync_directory, remove_tree
from gsx.storage.artifacts.manifest import MANIFEST, decode_manifest


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
    if not file.is_file() or file.stat().st_size > MANIFEST_BYTES.value:
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
    _remove_abandoned(target)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    draft.mkdir()
    descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # no locks on this file system
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield draft
        try:
            draft.rename(target)  # also replaces an empty directory
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise StoreError(
                f"another process has written to {target} meanwhile; nothing was written there. "
                "Choose an empty or new directory."
            ) from error
    finally:
        os.close(descriptor)
        remove_tree(draft)
    fsync_directory(target.parent)


def _remove_abandoned(target: Path) -> None:
    """Remove unlocked drafts of the same target: their processes were killed."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.tmp")
    for path in target.parent.iterdir():
        if pattern.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(path)
                finally:
                    os.close(descriptor)
