"""A directory of files, on this machine or behind any fsspec URL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from gsx.errors import ArtifactError, GsxError, StoreError
from gsx.storage.artifacts.atomic_files import regular_files
from gsx.storage.artifacts.http import is_plain, open_url

_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory named by a local path or an fsspec URL."""

    url: str
    """What a person would type."""
    fs: fsspec.AbstractFileSystem
    root: str
    """Path inside the file system."""

    @classmethod
    def at(cls, url: str | Path) -> Place:
        """Return the place ``url`` names; nothing is read yet."""
        text = str(url)
        if "://" not in text:
            path = Path(text).expanduser()
            return cls(url=str(path), fs=fsspec.filesystem("file"), root=str(path.absolute()))
        # What another client puts after a listing must be seen; of HTTP nothing is listed.
        options = {} if text.startswith(_WEB) else {"use_listings_cache": False}
        try:
            fs, root = url_to_fs(text, **options)
        except (ImportError, ValueError) as error:
            raise StoreError(f"cannot open {text}: {error}") from error
        return cls(url=text.rstrip("/"), fs=fs, root=root.rstrip("/"))

    @property
    def local(self) -> Path | None:
        """The directory on this machine, or None when the place is remote."""
        protocol = self.fs.protocol
        names = (protocol,) if isinstance(protocol, str) else protocol
        return Path(self.root) if "file" in names else None

    @property
    def address(self) -> str:
        """The name by which other processes, in other folders, reach it."""
        return self.url if self.local is None else self.root

    def child(self, name: str) -> Place:
        """Return the directory ``name`` inside this one."""
        return Place(url=f"{self.url}/{name}", fs=self.fs, root=f"{self.root}/{name}")

    def path(self, name: str) -> str:
        """Return the path of a file, as the file system wants it."""
        return f"{self.root}/{name}"

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""
        return cast("BinaryIO", self.fs.open(self.path(name), "rb"))

    def stream(self, name: str) -> BinaryIO:
        """Open a file to be read once, from its start: plain HTTP servers know nothing else."""
        if is_plain(self.url, self.fs):
            return open_url(self.path(name))
        plain = {"block_size": 0} if self.url.startswith(_WEB) else {}
        return cast("BinaryIO", self.fs.open(self.path(name), "rb", **plain))

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return the whole content of a small file; a larger one than ``limit`` is refused."""
        with reachable(self), self.stream(name) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise ArtifactError(f"{self.url}/{name} is larger than {limit} bytes; refused.")
        return data

    def exists(self, name: str) -> bool:
        """Say whether a file or directory is there."""
        with reachable(self):
            return bool(self.fs.exists(self.path(name)))

    def sizes(self) -> dict[str, int]:
        """Return the size of every file below, by path; links are listed with size -1."""
        if self.local is not None:
            return _local_sizes(self.local)
        with reachable(self):
            self.fs.invalidate_cache()
            found: dict[str, Any] = self.fs.find(self.root, detail=True)
        prefix = self.root + "/"
        return {
            path.removeprefix(prefix): int(entry["size"])
            for path, entry in found.items()
            if entry["type"] == "file"
        }


@contextlib.contextmanager
def reachable(place: Place) -> Iterator[None]:
    """Turn what a remote file system raises into a StoreError; a missing file stays one.

    Every fsspec backend raises what its own libraries raise, so anything may come.
    """
    try:
        yield
    except (GsxError, FileNotFoundError):
        raise
    except Exception as error:
        if place.local is not None:
            raise
        raise StoreError(
            f"cannot use {place.url}: {type(error).__name__}: {error}\n"
            "Check the URL, the network and the credentials in your environment."
        ) from error


def _local_sizes(root: Path) -> dict[str, int]:
    sizes = {}
    for path in regular_files(root):
        plain = path.is_file() and not path.is_symlink()
        sizes[path.relative_to(root).as_posix()] = path.lstat().st_size if plain else -1
    return sizes
