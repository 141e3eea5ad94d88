"""Local files that survive crashes: written beside, flushed, then renamed into place."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from gsx.errors import StoreError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_UNFIT = {
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EIO,
    errno.ESTALE,
}


def flush_file(path: Path) -> None:
    """Ask the disk to keep the content of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


flush_directory = flush_file
"""Ask the disk to keep the names in a directory."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a small file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(data)
        flush_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_directory(path.parent)


def regular_files(root: Path) -> Iterator[Path]:
    """Yield every entry under ``root`` that is not a real directory, links included, in order."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        below = []
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                below.append(entry)
            else:
                yield entry
        waiting += reversed(below)


def remove_tree(path: Path) -> None:
    """Remove a directory and all it holds, or a file; links are removed, not followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    while path.is_dir():
        with contextlib.suppress(FileNotFoundError):  # another process removes it as well
            shutil.rmtree(path)


@contextlib.contextmanager
def explained(place: str, *, lost: str, other: str = "--store DIR") -> Iterator[None]:
    """Turn a full disk or a refused write into a StoreError that says what to do.

    ``other`` is the option that names another place.
    """
    try:
        yield
    except OSError as error:
        code = _code(error)
        if code in _FULL:
            raise StoreError(
                f"no space left on {place}. {lost}\n"
                "Free some space (`gsx gc` lists what can go) and run the same command again."
            ) from error
        if code in _DENIED:
            raise StoreError(
                f"cannot write to {place}: {os.strerror(code)}. {lost}\n"
                f"Choose another place with `{other}`, or ask for write access."
            ) from error
        if code in _UNFIT:
            raise StoreError(
                f"cannot write to {place}: {os.strerror(code)} ({error.filename}). {lost}\n"
                f"Choose another place with `{other}`."
            ) from error
        raise


def _code(error: OSError) -> int:
    """Return the errno; Arrow reports some failures only in the text."""
    if error.errno is not None:
        return error.errno
    return errno.ENOSPC if "No space left" in str(error) else 0
