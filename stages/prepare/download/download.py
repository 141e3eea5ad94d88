"""Download one file with resume, a size limit, hash verification and an atomic rename."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from gsx.errors import StageError
from gsx.stages.prepare.download.catalog import RemoteFile
from gsx.storage.artifacts.digest import CHUNK, sha256_file

ATTEMPTS = 3
"""Attempts per URL."""
_TIMEOUT = 30
_SPARE = 1 << 20
"""Allowed bytes beyond twice the stated size."""
_BROKEN = (OSError, http.client.HTTPException)
"""Exceptions of the standard library for failed connections."""


class _Rejected(Exception):  # noqa: N818
    """A URL that must not be tried again, with the reason."""


def download(
    remote: RemoteFile, path: Path, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Download a file to ``path``; a partial download is kept in ``path.part`` and resumed.

    ``progress`` receives the number of bytes on disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    reasons = []
    for url in remote.urls:
        try:
            _download_from(url, remote, part, progress)
        except _Rejected as error:
            reasons.append(f"{url}: {error}")
            continue
        os.replace(part, path)  # noqa: PTH105
        return
    listed = "\n  ".join(reasons)
    raise StageError(
        f"{path.name}: download failed:\n  {listed}\nRetry later, or download the file yourself "
        f"and save it as {path}."
    )


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
            if error.code < 500:
                raise _Rejected(f"the server returned {error.code} {error.reason}") from error
            reason = f"the server returned {error.code} {error.reason}"
            continue
        except _BROKEN as error:
            reason = f"the connection failed: {error}"
            continue
        if _hash_of(part, lines=remote.lines) == remote.sha256:
            return
        # Earlier bytes may belong to another version of the file: start from the beginning.
        part.unlink()
        reason = "the SHA-256 of the content differs from the catalog"
    raise _Rejected(reason)


def _request(url: str, remote: RemoteFile, part: Path, progress: Callable[[int], None]) -> None:
    size = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "gsx"})  # noqa: S310
    if size:
        request.add_header("Range", f"bytes={size}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and size:  # nothing left to send: complete, or another version
            return
        raise
    with response, part.open("r+b" if size else "wb") as stream:
        start = size if _continues(response, size) else 0
        stream.seek(start)
        stream.truncate()
        _copy(response, stream, start, 2 * remote.size + _SPARE, progress)
        stream.flush()
        os.fsync(stream.fileno())


def _continues(response: http.client.HTTPResponse, size: int) -> bool:
    """Return whether a response continues at the end of the file."""
    stated = response.headers.get("Content-Range", "")
    return response.status == 206 and stated.startswith(f"bytes {size}-")


def _copy(
    response: http.client.HTTPResponse,
    stream: IO[bytes],
    done: int,
    most: int,
    progress: Callable[[int], None],
) -> None:
    end = None if response.length is None else done + response.length
    if end is not None and end > most:
        raise _Rejected(f"the response has {end:,} bytes; at most {most:,} are expected")
    progress(done)
    while chunk := response.read(CHUNK):
        done += len(chunk)
        if done > most:
            raise _Rejected(f"the response has more than {most:,} bytes")
        stream.write(chunk)
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
