"""Read members of zip files that a user brings, and refuse what a zip file should not do."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from gsx.errors import StageError

SMALL = 1 << 28
"""Bytes that any archive may unpack to."""
RATIO = 100
"""Bytes that a larger archive may unpack to, per byte of its own."""
_DAMAGE = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, struct.error, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
"""What the standard library raises for a damaged zip file."""


class Archive:
    """The text files of one zip file, read into memory one at a time; nothing is extracted."""

    def __init__(self, path: Path, name: str) -> None:
        """Check the list of members; ``name`` stands for the file in errors."""
        self.name = name
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise StageError(f"{name} cannot be read as a zip file: {error}") from error
        members = [info for info in self._zip.infolist() if not info.is_dir()]
        for info in members:
            self._check(info)
        total = sum(info.file_size for info in members)
        allowed = max(SMALL, RATIO * path.stat().st_size)
        if total > allowed:
            raise StageError(
                f"{name} is {path.stat().st_size:,} bytes and says that it unpacks to {total:,}; "
                f"gsx reads at most {allowed:,} of such a file. Unpack it yourself if you trust it."
            )
        self.members: Mapping[str, zipfile.ZipInfo] = {
            PurePosixPath(info.filename).as_posix(): info
            for info in members
            if not any(part.startswith((".", "__MACOSX")) for part in info.filename.split("/"))
        }

    def _check(self, info: zipfile.ZipInfo) -> None:
        parts = info.filename.split("/")
        if info.filename.startswith("/") or ".." in parts or "\\" in info.filename or (
            ":" in parts[0]
        ):  # fmt: skip
            raise StageError(
                f"{self.name} holds `{info.filename}`, a path that leaves its folder. A dataset "
                "has no use for that; get the file from its source again."
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise StageError(f"{self.name} holds `{info.filename}`, a link; only files are read.")
        if info.flag_bits & 1:
            raise StageError(f"{self.name}: `{info.filename}` is encrypted. Unpack it yourself.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise StageError(
                f"{self.name}: `{info.filename}` is packed in an unusual way (method "
                f"{info.compress_type}). Unpack it yourself."
            )

    def read(self, member: str) -> bytes:
        """Return the bytes of a member."""
        info = self.members[member]
        try:
            with self._zip.open(info) as stream:
                # With a bound, because the size that a member states may be a lie.
                return stream.read(info.file_size + 1)
        except _DAMAGE as error:
            raise StageError(f"{self.name}: `{member}` cannot be unpacked: {error}") from error
