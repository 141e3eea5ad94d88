"""Open raw files: regular files only, and gzip files up to a limit on the unpacked size."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import IO, Any

from gsx.errors import StageError, UsageError
from gsx.limits import UNPACKED_BYTES
from gsx.stages.prepare.readers.limits import unpacked_limit

READ_ERRORS = (OSError, EOFError, zlib.error)
"""Exceptions of the standard library for a file that cannot be read, or a damaged gzip file."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_problem(path: Path) -> str | None:
    """Return why ``path`` is not a regular file, such as ``no file PATH``; None if it is one."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return f"no file {path}"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {_reason(error)}"
    kind = _KINDS.get(stat.S_IFMT(mode))
    return None if kind is None else f"{path} is {kind}, not a file"


def exists_as_file(path: Path) -> bool:
    """Return whether ``path`` exists; reject folders, named pipes and other kinds of files."""
    problem = file_problem(path)
    if problem is not None and not problem.startswith("no file "):
        raise UsageError(f"{problem}. Replace it with a regular file.")
    return problem is None


def open_raw_file(path: Path, name: str) -> IO[bytes]:
    """Open a regular file for reading; other kinds, such as named pipes, are refused at once."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise StageError(f"{name} cannot be read: {_reason(error)}.") from error
    kind = _KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode))
    if kind is not None:
        os.close(descriptor)
        raise StageError(f"{name} is {kind}, not a file. Pass a regular file.")
    return os.fdopen(descriptor, "rb")


def open_unpacked(path: Path, name: str) -> IO[bytes]:
    """Open a file; decompress it, up to a limit, if ``name`` ends in ``.gz``."""
    stream = open_raw_file(path, name)
    return io.BufferedReader(_BoundedGzip(stream, name)) if name.endswith(".gz") else stream


def read_raw_file(path: Path, name: str) -> bytes:
    """Return the content of a file, decompressed, up to a limit, if ``name`` ends in ``.gz``."""
    try:
        with open_unpacked(path, name) as stream:
            return stream.read()
    except READ_ERRORS as error:
        raise StageError(f"{name} cannot be read: {_reason(error)}") from error


class _BoundedGzip(io.RawIOBase):
    """Decompressed content of a gzip file, with a limit on its size."""

    def __init__(self, packed: IO[bytes], name: str) -> None:
        self._packed = packed
        self._stream = gzip.GzipFile(fileobj=packed)
        self._name = name
        self._size = os.fstat(packed.fileno()).st_size
        self._limit = self._remaining = unpacked_limit(self._size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        read = self._stream.readinto(buffer)
        self._remaining -= read
        if self._remaining < 0:
            raise StageError(
                f"{self._name} has {self._size:,} bytes and unpacks to more than "
                f"{self._limit:,}. Unpack it yourself if you trust it, or set "
                f"{UNPACKED_BYTES.variable} to a larger number."
            )
        return read

    def close(self) -> None:
        self._stream.close()
        self._packed.close()
        super().close()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
