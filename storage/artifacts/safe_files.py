"""Open files below a directory: no link is followed, and only regular files are read.

Artifacts and stores may come from untrusted sources. Every function here resolves a relative path
one component at a time, each relative to the handle of its parent directory, so that nothing
outside the root is reached even if directories are replaced meanwhile. The root itself is the path
that the user named; links in it are followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from gsx.errors import ArtifactError, StoreError
from gsx.limits import ENTRIES

MAX_DEPTH = 64
"""Maximum depth of directories below one root."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block
_TICK_NS = 20_000_000
"""Resolution of file timestamps on common file systems."""
_COARSE_TICK_NS = 2_000_000_000
"""Resolution of file timestamps on file systems that store whole seconds."""


class FileStamp(msgspec.Struct, frozen=True, array_like=True):
    """Identity and modification state of a file; any write changes it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result, *, size: int | None = None) -> FileStamp:
        """Return the stamp of a file status, with another ``size`` if it is given."""
        size = status.st_size if size is None else size
        return cls(status.st_dev, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)

    def is_recent(self) -> bool:
        """Return whether another write might leave the timestamps unchanged."""
        tick = _TICK_NS if self.ctime_ns % 1_000_000_000 else _COARSE_TICK_NS
        return time.time_ns() - self.ctime_ns < tick


def open_regular(root: Path, name: str) -> BinaryIO:
    """Open the regular file ``name`` below ``root`` for reading."""
    folder, _, base = name.rpartition("/")
    with open_directory(root, folder) as parent:
        try:
            descriptor = os.open(base, _FILE, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise ArtifactError(_not_regular(root / name, "a symbolic link")) from error
            if error.errno == errno.ENXIO:  # a socket
                raise ArtifactError(_not_regular(root / name, "not a file")) from error
            raise _with_path(error, root / name) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArtifactError(_not_regular(root / name, "not a file"))
    return os.fdopen(descriptor, "rb")


def append_text(root: Path, name: str, text: str) -> None:
    """Append text to the regular file ``name`` below ``root``; create it if it is missing."""
    folder, _, base = name.rpartition("/")
    with open_directory(root, folder) as parent:
        descriptor = os.open(base, _APPEND, 0o666, dir_fd=parent)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ArtifactError(_not_regular(root / name, "not a file"))
        stream.write(text)


def open_user_file(path: Path) -> BinaryIO:
    """Open a regular file that the user named for reading; links are followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def stamp_of(stream: BinaryIO) -> FileStamp:
    """Return the stamp of an open file."""
    return FileStamp.of(os.fstat(stream.fileno()))


@contextlib.contextmanager
def open_directory(root: Path, name: str = "") -> Iterator[int]:
    """Yield a descriptor of the directory ``name`` below ``root``."""
    descriptor = os.open(root, _DIRECTORY)
    try:
        for part in name.split("/") if name else ():
            if part in ("", ".", ".."):
                raise ArtifactError(f"{name!r} is not a path inside {root}.")
            inner = _open_subdirectory(descriptor, part, root, name)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _open_subdirectory(parent: int, part: str, root: Path, name: str) -> int:
    try:
        return os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            if stat.S_ISLNK(os.lstat(part, dir_fd=parent).st_mode):
                raise ArtifactError(_not_regular(root / name, "behind a symbolic link")) from error
        raise _with_path(error, root / name) from error


def walk(root: Path, name: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield relative path and status of every entry below ``root/name`` except directories.

    Links are entries of their own. The order is that of sorted names, files before subdirectories.
    """
    pending, count = [""], 0
    while pending:
        folder = pending.pop()
        subfolders = []
        with _readable_directory(root, "/".join(filter(None, (name, folder)))) as descriptor:
            for entry in sorted(os.listdir(descriptor)):  # noqa: PTH208
                try:
                    status = os.lstat(entry, dir_fd=descriptor)
                except FileNotFoundError:  # removed meanwhile
                    continue
                path = f"{folder}/{entry}" if folder else entry
                count += 1
                if stat.S_ISDIR(status.st_mode):
                    subfolders.append(path)
                else:
                    yield path, status
        _check_extent(root / name, count, folder)
        pending += reversed(subfolders)


@contextlib.contextmanager
def _readable_directory(root: Path, name: str) -> Iterator[int]:
    try:
        with open_directory(root, name) as descriptor:
            yield descriptor
    except PermissionError as error:
        raise ArtifactError(f"{root / name} cannot be read: {error.strerror}") from error


def _check_extent(where: Path, count: int, folder: str) -> None:
    if count > ENTRIES.value:
        raise ArtifactError(f"{where} has more than {ENTRIES.value:,} entries. {ENTRIES.advice}")
    if folder.count("/") >= MAX_DEPTH:
        raise ArtifactError(
            f"{where} has more than {MAX_DEPTH} levels of directories. It is not an artifact or a "
            "store of gsx."
        )


def regular_sizes(root: Path, name: str = "") -> dict[str, int]:
    """Return the size of every regular file below ``root/name``, by path; others have size -1."""
    return {
        path: status.st_size if stat.S_ISREG(status.st_mode) else -1
        for path, status in walk(root, name)
    }


def make_directory(root: Path, name: str) -> Path:
    """Create the directory ``name`` below ``root``, with its parents, and return its path.

    A link in its place is an error: everything below would be written elsewhere.
    """
    parts = name.split("/")
    for count in range(1, len(parts) + 1):
        folder, _, base = "/".join(parts[:count]).rpartition("/")
        with open_directory(root, folder) as parent:
            try:
                os.mkdir(base, dir_fd=parent)
            except FileExistsError as error:
                if not stat.S_ISDIR(os.lstat(base, dir_fd=parent).st_mode):
                    raise _with_path(error, root / name) from error
    return root / name


def require_directory(root: Path, name: str) -> bool:
    """Return whether the directory ``name`` exists; raise StoreError if it is a link or a file."""
    try:
        with open_directory(root, name):
            return True
    except FileNotFoundError:
        return False
    except (ArtifactError, NotADirectoryError) as error:
        raise StoreError(
            f"{root / name} is not a directory, or is a symbolic link. gsx follows no links inside "
            "a store. Remove it, then run the command again."
        ) from error


def remove_beneath(root: Path, name: str) -> None:
    """Remove the file, link or directory tree ``name`` below ``root``; links are not followed."""
    folder, _, base = name.rpartition("/")
    try:
        with open_directory(root, folder) as parent:
            while stat.S_ISDIR(os.lstat(base, dir_fd=parent).st_mode):
                with contextlib.suppress(FileNotFoundError):  # another process removes it as well
                    shutil.rmtree(base, dir_fd=parent)
            os.unlink(base, dir_fd=parent)
    except FileNotFoundError:
        return
    except RecursionError as error:
        raise StoreError(f"{root / name} is nested too deeply; remove it by hand.") from error


def make_read_only(root: Path, name: str) -> None:
    """Remove the write permission of a regular file; some network file systems ignore this."""
    with open_regular(root, name) as stream, contextlib.suppress(OSError):
        if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) != 0o444:  # also a new ctime
            os.fchmod(stream.fileno(), 0o444)


def remove_links(root: Path) -> None:
    """Remove every entry below ``root`` that is neither a regular file nor a directory."""
    for path, status in list(walk(root)):
        if not stat.S_ISREG(status.st_mode):
            remove_beneath(root, path)


def rename_beneath(root: Path, old: str, new: str) -> None:
    """Rename an entry below ``root``; no component of either path may be a link."""
    old_folder, _, old_base = old.rpartition("/")
    new_folder, _, new_base = new.rpartition("/")
    with open_directory(root, old_folder) as source, open_directory(root, new_folder) as target:
        os.rename(old_base, new_base, src_dir_fd=source, dst_dir_fd=target)


def _not_regular(path: Path, what: str) -> str:
    return f"{path} is {what}; artifacts contain regular files only."


def _with_path(error: OSError, path: Path) -> OSError:
    """Return the error with the whole path instead of the last component."""
    return type(error)(error.errno, error.strerror, str(path))
