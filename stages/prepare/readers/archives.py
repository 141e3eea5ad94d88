"""Read members of zip files from users; reject unsafe, encrypted and oversized archives."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from gsx.errors import StageError

MAX_UNPACKED_BYTES = 1 << 28
"""Unpacked size that is always accepted, in bytes."""
MAX_UNPACKED_RATIO = 100
"""Accepted ratio of unpacked to packed size above ``MAX_UNPACKED_BYTES``."""
_ZIP_ERRORS = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, struct.error, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
"""Exceptions of the standard library for a damaged zip file."""


class Archive:
    """Members of one zip file, read into memory one at a time; nothing is extracted to disk."""

    def __init__(self, path: Path, name: str) -> None:
        """Check the list of members; ``name`` denotes the file in error messages."""
        self.name = name
        try:
            self._zip = zipfile.ZipFile(path)
        except _ZIP_ERRORS as error:
            raise StageError(f"{name} is not a readable zip file: {error}") from error
        members = [info for info in self._zip.infolist() if not info.is_dir()]
        for info in members:
            self._check(info)
        total = sum(info.file_size for info in members)
        allowed = max(MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO * path.stat().st_size)
        if total > allowed:
            raise StageError(
                f"{name} has {path.stat().st_size:,} bytes and would unpack to {total:,} bytes; "
                f"the limit is {allowed:,}. Unpack it yourself if you trust it."
            )
        self.members: Mapping[str, zipfile.ZipInfo] = {
            PurePosixPath(info.filename).as_posix(): info
            for info in members
            if not any(part.startswith((".", "__MACOSX")) for part in info.filename.split("/"))
        }

    def _check(self, info: zipfile.ZipInfo) -> None:
        """Reject a member with an unsafe path, a link, encryption or an unusual compression."""
        parts = info.filename.split("/")
        if info.filename.startswith("/") or ".." in parts or "\\" in info.filename or (
            ":" in parts[0]
        ):  # fmt: skip
            raise StageError(
                f"{self.name}: the path `{info.filename}` points outside the archive. Download "
                "the file again from its source."
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise StageError(
                f"{self.name}: `{info.filename}` is a symbolic link. Replace it with a file."
            )
        if info.flag_bits & 1:
            raise StageError(f"{self.name}: `{info.filename}` is encrypted. Unpack it yourself.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise StageError(
                f"{self.name}: `{info.filename}` uses an unsupported compression (method "
                f"{info.compress_type}). Unpack it yourself."
            )

    def read(self, member: str) -> bytes:
        """Return the bytes of a member."""
        info = self.members[member]
        try:
            with self._zip.open(info) as stream:
                # Bounded, because the size in the header of a member may be wrong.
                return stream.read(info.file_size + 1)
        except _ZIP_ERRORS as error:
            raise StageError(f"{self.name}: `{member}` cannot be unpacked: {error}") from error
