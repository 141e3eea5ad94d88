"""Locations: directories on this machine or on any file system that fsspec supports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from gsx.errors import ArtifactError, GsxError, StoreError
from gsx.storage.artifacts.atomic_files import iter_files
from gsx.storage.artifacts.http import is_plain_http, open_url

_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Location:
    """A directory given by a local path or an fsspec URL."""

    url: str
    """The path or URL as a user would type it."""
    fs: fsspec.AbstractFileSystem
    root: str
    """Path inside the file system."""

    @classmethod
    def at(cls, url: str | Path) -> Location:
        """Return the location of ``url`` without reading anything."""
        text = str(url)
        if "://" not in text:
            path = Path(text).expanduser()
            return cls(url=str(path), fs=fsspec.filesystem("file"), root=str(path.absolute()))
        # Listings are not cached, so that files written by other clients become visible.
        # The HTTP file system never lists.
        options = {} if text.startswith(_WEB) else {"use_listings_cache": False}
        try:
            fs, root = url_to_fs(text, **options)
        except (ImportError, ValueError) as error:
            raise StoreError(f"cannot open {text}: {error}") from error
        return cls(url=text.rstrip("/"), fs=fs, root=root.rstrip("/"))

    @property
    def local(self) -> Path | None:
        """The directory on this machine, or None if the location is remote."""
        protocol = self.fs.protocol
        protocols = (protocol,) if isinstance(protocol, str) else protocol
        return Path(self.root) if "file" in protocols else None

    @property
    def absolute_url(self) -> str:
        """An absolute path or URL, valid in processes with another working directory."""
        return self.url if self.local is None else self.root

    def child(self, name: str) -> Location:
        """Return the directory ``name`` inside this one."""
        return Location(url=f"{self.url}/{name}", fs=self.fs, root=f"{self.root}/{name}")

    def path(self, name: str) -> str:
        """Return the path of a file inside the file system."""
        return f"{self.root}/{name}"

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading, with seeking."""
        return cast("BinaryIO", self.fs.open(self.path(name), "rb"))

    def stream(self, name: str) -> BinaryIO:
        """Open a file for one sequential read; plain HTTP servers support nothing else."""
        if is_plain_http(self.url, self.fs):
            return open_url(self.path(name))
        options = {"block_size": 0} if self.url.startswith(_WEB) else {}
        return cast("BinaryIO", self.fs.open(self.path(name), "rb", **options))

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return the content of a small file; raise ArtifactError above ``limit`` bytes."""
        with translate_remote_errors(self), self.stream(name) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise ArtifactError(
                f"{self.url}/{name} is larger than the limit of {limit} bytes. Nothing was read."
            )
        return data

    def exists(self, name: str) -> bool:
        """Return whether a file or directory exists."""
        with translate_remote_errors(self):
            return bool(self.fs.exists(self.path(name)))

    def sizes(self) -> dict[str, int]:
        """Return the size of every file below this directory, by path; links have size -1."""
        if self.local is not None:
            return _local_sizes(self.local)
        with translate_remote_errors(self):
            self.fs.invalidate_cache()
            entries: dict[str, Any] = self.fs.find(self.root, detail=True)
        prefix = self.root + "/"
        return {
            path.removeprefix(prefix): int(entry["size"])
            for path, entry in entries.items()
            if entry["type"] == "file"
        }


@contextlib.contextmanager
def translate_remote_errors(location: Location) -> Iterator[None]:
    """Convert exceptions of a remote file system to StoreError, except FileNotFoundError.

    Every fsspec backend raises the exceptions of its own libraries, so any type is caught.
    """
    try:
        yield
    except (GsxError, FileNotFoundError):
        raise
    except Exception as error:
        if location.local is not None:
            raise
        raise StoreError(
            f"cannot access {location.url}: {type(error).__name__}: {error}\n"
            "Check the URL, the network and the credentials in your environment."
        ) from error


def _local_sizes(root: Path) -> dict[str, int]:
    sizes = {}
    for path in iter_files(root):
        is_regular = path.is_file() and not path.is_symlink()
        sizes[path.relative_to(root).as_posix()] = path.lstat().st_size if is_regular else -1
    return sizes
