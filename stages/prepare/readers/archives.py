"""Read members of zip files from users; reject unsafe, encrypted and oversized archives."""

from __future__ import annotations

import os
import stat
import struct
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from gsx.errors import StageError
from gsx.limits import UNPACKED_BYTES
from gsx.names import shown
from gsx.stages.prepare.readers.limits import unpacked_limit
from gsx.stages.prepare.readers.raw_files import open_raw_file

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
        stream = open_raw_file(path, name)
        weakref.finalize(self, stream.close)
        self.size = os.fstat(stream.fileno()).st_size
        """Size of the zip file in bytes."""
        try:
            self._zip = zipfile.ZipFile(stream)
        except _ZIP_ERRORS as error:
            raise StageError(f"{name} is not a readable zip file: {error}") from error
        members = [info for info in self._zip.infolist() if not info.filename.endswith("/")]
        for info in members:
            self._check(info)
        total = sum(info.file_size for info in members)
        limit = unpacked_limit(self.size)
        if total > limit:
            raise StageError(
                f"{name} has {self.size:,} bytes and would unpack to {total:,} bytes; the limit is "
                f"{limit:,}. Unpack it yourself if you trust it, or set {UNPACKED_BYTES.variable} "
                "to a larger number."
            )
        self.members: Mapping[str, zipfile.ZipInfo] = {
            PurePosixPath(info.filename).as_posix(): info for info in members
        }
        """Path → entry, without hidden files and files that macOS adds."""
        if len(self.members) < len(members):
            repeated = _first_repeated(PurePosixPath(info.filename).as_posix() for info in members)
            raise StageError(
                f"{name}: the path {shown(repeated)} occurs more than once. Remove one of the "
                "files."
            )
        self.members = {
            member: info
            for member, info in self.members.items()
            if not any(part.startswith((".", "__MACOSX")) for part in member.split("/"))
        }

    def _check(self, info: zipfile.ZipInfo) -> None:
        """Reject a member with an unsafe path, a link, encryption or an unusual compression."""
        parts = info.filename.split("/")
        if parts[0] == "" or ".." in parts or "\\" in info.filename or ":" in parts[0]:
            raise StageError(
                f"{self.name}: the path {shown(info.filename)} points outside the archive. "
                "Download the file again from its source."
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise StageError(
                f"{self.name}: {shown(info.filename)} is a symbolic link. Replace it with a file."
            )
        if info.flag_bits & 1:
            raise StageError(
                f"{self.name}: {shown(info.filename)} is encrypted. Unpack it yourself."
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise StageError(
                f"{self.name}: {shown(info.filename)} uses an unsupported compression (method "
                f"{info.compress_type}). Unpack it yourself."
            )

    def read(self, member: str) -> bytes:
        """Return the bytes of a member."""
        info = self.members[member]
        try:
            with self._zip.open(info) as stream:
                # Bounded, because the size in the header of a member may be wrong.
                data = stream.read(info.file_size + 1)
        except _ZIP_ERRORS as error:
            raise StageError(f"{self.name}: {shown(member)} cannot be unpacked: {error}") from error
        if len(data) != info.file_size:
            raise StageError(
                f"{self.name}: {shown(member)} cannot be unpacked: it has {len(data):,} bytes, but "
                f"the archive declares {info.file_size:,}."
            )
        return data


def _first_repeated(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]
