"""Crash-safe local files: write to a temporary name, fsync, rename."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from gsx.errors import StoreError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FSYNC_UNSUPPORTED = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of file systems that have no fsync for this kind of file."""


def fsync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _FSYNC_UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


fsync_directory = fsync_file
"""Flush the entries of a directory to disk."""


def atomic_write(path: Path, data: bytes) -> None:
    """Write a small file completely or not at all, with fsync."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(data)
        fsync_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)


def atomic_create(path: Path, data: bytes) -> bool:
    """Write a new small file completely or not at all; return False if the path exists."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(data)
        fsync_file(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if os.path.lexists(path):
                return False
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)
    return True


def iter_files(root: Path) -> Iterator[Path]:
    """Yield every entry under ``root`` except real directories, in order; links are included."""
    pending = [root]
    while pending:
        folder = pending.pop()
        subfolders = []
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                subfolders.append(entry)
            else:
                yield entry
        pending += reversed(subfolders)


def remove_tree(path: Path) -> None:
    """Remove a file, or a directory with its content; links are removed, not followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    while path.is_dir():
        with contextlib.suppress(FileNotFoundError):  # another process is removing it as well
            shutil.rmtree(path)


@contextlib.contextmanager
def translate_os_errors(
    where: str, *, consequence: str, option: str = "--store DIR"
) -> Iterator[None]:
    """Convert an OSError of a failed write to a StoreError with advice.

    ``consequence`` describes the state after the failure. ``option`` is the command-line option
    that selects another location.
    """
    try:
        yield
    except OSError as error:
        code = _errno(error)
        if code in _DISK_FULL:
            raise StoreError(
                f"no space left on {where}. {consequence}\n"
                "Free some space (`gsx gc` lists what can be deleted), then run the command again."
            ) from error
        if code in _DENIED:
            raise StoreError(
                f"cannot write to {where}: {os.strerror(code)}. {consequence}\n"
                f"Choose another location with `{option}`, or get write access."
            ) from error
        cause = os.strerror(code) if code else str(error)
        path = f" ({error.filename})" if error.filename else ""
        raise StoreError(
            f"cannot write to {where}: {cause}{path}. {consequence}\n"
            f"Choose another location with `{option}`, or check the disk."
        ) from error


@contextlib.contextmanager
def translate_safetensors_errors() -> Iterator[None]:
    """Convert an error of the safetensors library on writing to an OSError."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        code = errno.ENOSPC if "No space left" in str(error) else errno.EIO
        raise OSError(code, f"{os.strerror(code)}: {error}") from error


def _errno(error: OSError) -> int:
    """Return the errno; Arrow reports some failures only in the message."""
    if error.errno is not None:
        return error.errno
    return errno.ENOSPC if "No space left" in str(error) else 0
