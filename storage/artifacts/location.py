"""Locations: directories on this machine or on any file system that fsspec supports."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import fsspec
from fsspec.core import url_to_fs

from gsx.errors import ArtifactError, GsxError, StoreError
from gsx.escape import redact_urls
from gsx.limits import LIST, Limit
from gsx.storage.artifacts.digest import read_at_most, sha256_stream
from gsx.storage.artifacts.http import WEB, WebFileSystem, open_url
from gsx.storage.artifacts.safe_files import FileStamp, open_regular, regular_sizes, stamp_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """Files whose hash is known to be that of the manifest."""

    hashes: Mapping[str, tuple[int, str]]
    """Size and SHA-256, by path."""
    stamps: dict[str, FileStamp]
    """Stamps of the files while they were hashed, by path."""

    def check(self, path: str, stream: BinaryIO) -> bool:
        """Return whether an open file holds the verified bytes; a changed file is hashed again."""
        if path not in self.hashes:
            return True
        before = stamp_of(stream)
        if self.stamps.get(path) == before:
            return True
        content = sha256_stream(stream, limit=self.hashes[path][0] + 1)
        if content != self.hashes[path] or stamp_of(stream) != before:
            return False
        self.stamps[path] = before
        stream.seek(0)
        return True


@dataclass(frozen=True, slots=True)
class Location:
    """A directory given by a local path or an fsspec URL."""

    url: str
    """The path or URL as a user would type it, without user name, password and parameters."""
    fs: fsspec.AbstractFileSystem
    root: str
    """Path inside the file system."""
    anchor: str = field(default="", compare=False)
    """Local directory that the user named; below it no link is followed."""
    verified: VerifiedFiles | None = field(default=None, compare=False, repr=False)
    """Files of the artifact that were verified; None before verification."""
    prefix: str = field(default="", compare=False, repr=False)
    """Path of this directory below the artifact, if its files were verified."""
    secret_url: str = field(default="", repr=False, compare=False)
    """The URL with all its parts; empty for a local path."""

    @classmethod
    def at(cls, url: str | Path) -> Location:
        """Return the location of ``url`` without reading anything."""
        text = str(url)
        if "://" not in text:
            path = Path(text).expanduser()
            root = str(path.absolute())
            return cls(url=str(path), fs=fsspec.filesystem("file"), root=root, anchor=root)
        text = text.rstrip("/")
        if text.lower().startswith(WEB):
            url = redact_urls(text)
            return cls(url=url, fs=WebFileSystem(), root=url, secret_url=text)
        try:
            # Listings are not cached, so that files written by other clients become visible.
            fs, root = url_to_fs(text, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise StoreError(f"cannot open {redact_urls(text)}: {error}") from error
        root = root.rstrip("/")
        return cls(url=redact_urls(text), fs=fs, root=root, anchor=root, secret_url=text)

    @property
    def local(self) -> Path | None:
        """The directory on this machine, or None if the location is remote."""
        protocol = self.fs.protocol
        protocols = (protocol,) if isinstance(protocol, str) else protocol
        return Path(self.root) if "file" in protocols else None

    @property
    def absolute_url(self) -> str:
        """An absolute path or URL, valid in processes with another working directory."""
        return self.secret_url if self.local is None else self.root

    @property
    def is_web(self) -> bool:
        """Whether the location is on a web server, where only `stream` and `read_bytes` work."""
        return isinstance(self.fs, WebFileSystem)

    def with_verified(self, files: VerifiedFiles) -> Location:
        """Return the location of a verified artifact, which opens no file that changed."""
        return replace(self, verified=files, prefix="")

    @property
    def inner(self) -> str:
        """Path of this directory below the anchor."""
        return self.root[len(self.anchor) :].strip("/")

    def child(self, name: str) -> Location:
        """Return the directory ``name`` inside this one."""
        return replace(
            self,
            url=f"{self.url}/{name}",
            root=f"{self.root}/{name}",
            prefix=f"{self.prefix}{name}/",
            secret_url=self.secret_url and f"{self.secret_url}/{name}",
        )

    def path(self, name: str) -> str:
        """Return the path of a file inside the file system."""
        return f"{self.root}/{name}"

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading, with seeking.

        A local file must be regular and not behind a link. If the artifact was verified and the
        file has changed since then, it is hashed again.
        """
        self._require_no_web()
        if self.local is None:
            return cast("BinaryIO", self.fs.open(self.path(name), "rb"))
        try:
            stream = open_regular(Path(self.anchor), f"{self.inner}/{name}".lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise ArtifactError(f"{self.url}/{name} cannot be read: {error.strerror}") from error
        if self.verified is not None and not self.verified.check(self.prefix + name, stream):
            stream.close()
            raise ArtifactError(
                f"{self.url}/{name} changed after it was verified. Nothing was read from it.\n"
                "Get the artifact from its source again, or rebuild it with `--force`."
            )
        return stream

    def stream(self, name: str, *, metadata: bool = False) -> BinaryIO:
        """Open a file for one sequential read; ``metadata`` limits the time for a small file."""
        if self.is_web:
            return open_url(f"{self.secret_url}/{name}", metadata=metadata)
        return self.open(name)

    def read_bytes(self, name: str, *, limit: int | Limit) -> bytes:
        """Return the content of a small file; raise ArtifactError above ``limit`` bytes."""
        bound, advice = (
            (limit.value, f" {limit.advice}") if isinstance(limit, Limit) else (limit, "")
        )
        with translate_remote_errors(self):
            data = self._fetch(name, bound + 1)
        if len(data) > bound:
            raise ArtifactError(
                f"{self.url}/{name} is larger than the limit of {bound:,} bytes. Nothing was "
                f"read.{advice}"
            )
        return data

    def _fetch(self, name: str, limit: int) -> bytes:
        """Return up to ``limit`` bytes of a file, with one request to an object store."""
        if self.local is None and not self.is_web:
            with contextlib.suppress(OSError, ValueError, NotImplementedError):
                return cast("bytes", self.fs.cat_file(self.path(name), start=0, end=limit))
        with self.stream(name, metadata=True) as stream:  # also if the range of an empty file fails
            return read_at_most(stream, limit)

    def exists(self, name: str) -> bool:
        """Return whether a file or directory exists; a link counts as existing."""
        if self.local is not None:
            return os.path.lexists(self.path(name))
        with translate_remote_errors(self):
            return bool(self.fs.exists(self.path(name)))

    def sizes(self) -> dict[str, int]:
        """Return the size of every file below this directory, by path; links have size -1."""
        if self.local is not None:
            return regular_sizes(Path(self.anchor), self.inner)
        self._require_no_web()
        with translate_remote_errors(self):
            self.fs.invalidate_cache()
            entries: dict[str, Any] = self._list(lambda: self.fs.find(self.root, detail=True))
        prefix = self.root + "/"
        return {
            path.removeprefix(prefix): int(entry["size"])
            for path, entry in entries.items()
            if entry["type"] == "file"
        }

    def glob(self, pattern: str) -> list[str]:
        """Return the remote paths that match a pattern below this directory."""
        with translate_remote_errors(self):
            self.fs.invalidate_cache()
            paths = self._list(lambda: self.fs.glob(f"{self.root}/{pattern}"))
        return [str(path) for path in paths]

    def paths_with_prefix(self, prefix: str) -> list[str]:
        """Return the remote paths of files below this directory that begin with ``prefix``.

        Object stores list only these; other file systems list all, so the caller compares names.
        """
        paths: list[str] = []
        with translate_remote_errors(self), contextlib.suppress(FileNotFoundError):
            self.fs.invalidate_cache()
            paths = self._list(lambda: self.fs.find(self.root, prefix=prefix))
        return [str(path) for path in paths]

    def _list(self, function: Callable[[], T]) -> T:
        """Call ``function`` in another thread; raise StoreError if it takes too long."""
        seconds = LIST.value
        results: list[T] = []
        errors: list[Exception] = []

        def call() -> None:
            try:
                results.append(function())
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=call, daemon=True)  # does not keep the process alive
        thread.start()
        thread.join(seconds)
        if errors:
            raise errors[0]
        if not results:
            raise StoreError(
                f"{self.url}: listing the files took longer than {seconds:g} s. Check the URL. "
                f"{LIST.advice}"
            )
        return results[0]

    def _require_no_web(self) -> None:
        if self.is_web:
            raise StoreError(
                f"{self.url} is on a web server, from which gsx can only copy.\nRun `gsx pull "
                f"{self.url}`, then use the copy."
            )


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
            f"cannot access {location.url}: {type(error).__name__}: {redact_urls(str(error))}\n"
            "Check the URL, the network and the credentials in your environment."
        ) from error
