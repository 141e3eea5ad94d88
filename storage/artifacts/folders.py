"""Read directories of a local store without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from gsx.errors import StoreError
from gsx.storage.artifacts.manifest import MANIFEST


def subdirectories(
    folder: Path,
    missing_ok: tuple[type[OSError], ...] = (FileNotFoundError, NotADirectoryError),
    prefix: str = "",
) -> list[str]:
    """Return the sorted names of the real directories in a directory; none if it is missing."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)
            )
    except missing_ok:
        return []
    except OSError as error:
        raise StoreError(f"cannot read the store {folder}: {error.strerror}") from error


def is_path_or_url(name: str) -> bool:
    """Return whether ``name`` is a URL or a directory with a manifest, not a key."""
    return "://" in name or has_mode(Path(name) / MANIFEST, lambda mode: not stat.S_ISDIR(mode))


def has_mode(path: Path, test: Callable[[int], bool]) -> bool:
    """Return whether a path exists and its mode passes a test."""
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):  # missing, too long, or not a valid path
        return False
