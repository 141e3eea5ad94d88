"""Download one file with resume, limits on size and time, hash verification and atomic rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import stat
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

from gsx.errors import StageError, StoreError
from gsx.stages.prepare.download.catalog import RemoteFile
from gsx.stages.prepare.download.http_get import SlowServerError, open_http
from gsx.storage.artifacts.digest import CHUNK, sha256_file

ATTEMPTS = 3
"""Attempts per URL."""
_SPARE = 1 << 20
"""Allowed bytes beyond twice the stated size."""
_BASE_SECONDS, _BYTES_PER_SECOND = 60.0, 16_384
"""An attempt may take a minute, and a second for each 16 kB of the stated size."""
_BROKEN = (OSError, http.client.HTTPException, ValueError)
"""Exceptions of the standard library for failed connections and invalid redirects."""
_MAX_REASON = 200


class _Rejected(Exception):  # noqa: N818
    """A URL that must not be tried again, with the reason."""


def download(
    remote: RemoteFile, path: Path, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Download a file to ``path``; a partial download is kept in ``path.part`` and resumed.

    ``progress`` receives the number of bytes on disk.
    """
    part = path.with_name(f"{path.name}.part")
    with _local_errors(part):
        path.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in remote.urls:
        try:
            _download_from(url, remote, part, progress)
        except _Rejected as error:
            reasons.append(f"{url}: {error}")
            continue
        with _local_errors(part):
            os.replace(part, path)  # noqa: PTH105
        return
    listed = "\n  ".join(reasons)
    raise StageError(
        f"{path.name}: download failed:\n  {listed}\nRetry later, or download the file yourself "
        f"and save it as {path}."
    )


@contextlib.contextmanager
def _local_errors(part: Path) -> Iterator[None]:
    """Turn an error of the disk into a clear one; remove the partial download."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(
            f"{part.parent} cannot be written: {error.strerror or error}. "
            f"{'Free some space' if full else 'Check its permissions'}, or pass another directory "
            "with `--raw DIR`."
        ) from error


def _download_from(
    url: str, remote: RemoteFile, part: Path, progress: Callable[[int], None]
) -> None:
    """Download one URL to ``part`` and verify the hash."""
    if not url.startswith(("http://", "https://")):
        raise _Rejected("not an HTTP URL")
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            _request(url, remote, part, progress)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server returned {error.code} {str(error.reason)[:_MAX_REASON]}"
            if error.code < 500:
                raise _Rejected(reason) from error
            continue
        except SlowServerError as error:
            raise _Rejected(str(error)) from error
        except _BROKEN as error:
            reason = f"the connection failed: {str(error)[:_MAX_REASON]}"
            continue
        with _local_errors(part):
            if _hash_of(part, lines=remote.lines) == remote.sha256:
                return
            # Earlier bytes may belong to another version of the file: start from the beginning.
            part.unlink(missing_ok=True)
        reason = "the SHA-256 of the content differs from the catalog"
    raise _Rejected(reason)


def _request(url: str, remote: RemoteFile, part: Path, progress: Callable[[int], None]) -> None:
    """Request the bytes of a URL that ``part`` lacks and append them."""
    with _local_errors(part):
        size = _part_size(part)
    headers = {"User-Agent": "gsx", **({"Range": f"bytes={size}-"} if size else {})}
    seconds = _BASE_SECONDS + remote.size / _BYTES_PER_SECOND
    try:
        response = open_http(url, headers, seconds)
    except urllib.error.HTTPError as error:
        if error.code == 416 and size:  # nothing left to send: complete, or another version
            error.close()
            return
        raise
    with response:
        start = size if _continues(response, size) else 0
        try:
            with _open_part(part, start) as write:
                _copy(response, write, start, 2 * remote.size + _SPARE, progress)
        except _Rejected:
            with _local_errors(part):
                part.unlink(missing_ok=True)
            raise


def _part_size(part: Path) -> int:
    """Return the size of the partial download, 0 without one; reject links and devices."""
    try:
        status = part.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(status.st_mode):
        raise StageError(f"{part} is not a regular file. Remove it.")
    return status.st_size


@contextlib.contextmanager
def _open_part(part: Path, start: int) -> Iterator[Callable[[bytes], None]]:
    """Return a function that appends to the partial download, which is cut at ``start``.

    At the end the file is flushed to disk.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

    def write(chunk: bytes) -> None:
        with _local_errors(part):
            stream.write(chunk)
            stream.flush()

    with _local_errors(part):
        stream = os.fdopen(os.open(part, flags, 0o666), "r+b")
        try:
            stream.seek(start)
            stream.truncate()
        except BaseException:
            stream.close()
            raise
    try:
        yield write
        with _local_errors(part):
            os.fsync(stream.fileno())
    finally:
        with contextlib.suppress(OSError):  # every write was flushed
            stream.close()


def _continues(response: http.client.HTTPResponse, size: int) -> bool:
    """Return whether a response continues at the end of the file."""
    stated = response.headers.get("Content-Range", "")
    return response.status == 206 and stated.startswith(f"bytes {size}-")


def _copy(
    response: http.client.HTTPResponse,
    write: Callable[[bytes], None],
    done: int,
    limit: int,
    progress: Callable[[int], None],
) -> None:
    """Append the response to the partial download."""
    end = None if response.length is None else done + response.length
    if end is not None and end > limit:
        raise _Rejected(f"the response has {end:,} bytes; at most {limit:,} are expected")
    progress(done)
    while chunk := response.read1(CHUNK):
        done += len(chunk)
        if done > limit:
            raise _Rejected(f"the response has more than {limit:,} bytes")
        write(chunk)
        progress(done)
    if end is not None and done < end:
        raise ConnectionError(f"the response ended after {done:,} of {end:,} bytes")


def _hash_of(path: Path, *, lines: bool) -> str:
    """Return the SHA-256 of a file, or of its lines."""
    if not path.exists():
        return ""
    if not lines:
        return sha256_file(path)
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for line in stream:
            text = line.rstrip(b"\r\n")
            if text.strip():
                digest.update(text + b"\n")
    return digest.hexdigest()
