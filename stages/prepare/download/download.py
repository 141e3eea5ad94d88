"""Download one file: resumed where it stopped, bounded, checked, and there whole or not at all."""

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

TRIES = 3
"""How often one address is tried before the next is."""
_TIMEOUT = 30
_SPARE = 1 << 20
"""Bytes that a file may have beyond twice its size."""
_BROKEN = (OSError, http.client.HTTPException)
"""What the standard library raises for a connection that fails."""


class _Refused(Exception):  # noqa: N818
    """An address that need not be tried again, and why."""


def download(
    remote: RemoteFile, path: Path, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Bring a file to ``path``; what was brought before it broke off is kept beside it.

    ``progress`` is told how many bytes are there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    reasons = []
    for url in remote.urls:
        try:
            _bring(url, remote, part, progress)
        except _Refused as error:
            reasons.append(f"{url}: {error}")
            continue
        os.replace(part, path)  # noqa: PTH105
        return
    listed = "\n  ".join(reasons)
    raise StageError(
        f"{path.name} cannot be downloaded:\n  {listed}\nTry again later, or get the file yourself "
        f"and put it at {path}."
    )


def _bring(url: str, remote: RemoteFile, part: Path, progress: Callable[[int], None]) -> None:
    """Fill ``part`` from one address until it is whole and has the right hash."""
    if not url.startswith(("http://", "https://")):
        raise _Refused("not an address of the web")
    why = ""
    for _ in range(TRIES):
        try:
            _request(url, remote, part, progress)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise _Refused(f"the server says {error.code} {error.reason}") from error
            why = f"the server says {error.code} {error.reason}"
            continue
        except _BROKEN as error:
            why = f"the connection failed: {error}"
            continue
        if _hash_of(part, lines=remote.lines) == remote.sha256:
            return
        # Bytes of an earlier try may have been those of another file: begin anew.
        part.unlink()
        why = "what it sends is not the file that gsx knows (its SHA-256 differs)"
    raise _Refused(why)


def _request(url: str, remote: RemoteFile, part: Path, progress: Callable[[int], None]) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "gsx"})  # noqa: S310
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to send: whole, or of another file
            return
        raise
    with answer, part.open("r+b" if have else "wb") as stream:
        start = have if _continues(answer, have) else 0
        stream.seek(start)
        stream.truncate()
        _copy(answer, stream, start, 2 * remote.size + _SPARE, progress)
        stream.flush()
        os.fsync(stream.fileno())


def _continues(answer: http.client.HTTPResponse, have: int) -> bool:
    """Say whether an answer goes on where the file ends."""
    stated = answer.headers.get("Content-Range", "")
    return answer.status == 206 and stated.startswith(f"bytes {have}-")


def _copy(
    answer: http.client.HTTPResponse,
    stream: IO[bytes],
    done: int,
    most: int,
    progress: Callable[[int], None],
) -> None:
    end = None if answer.length is None else done + answer.length
    if end is not None and end > most:
        raise _Refused(f"it would send {end:,} bytes; at most {most:,} are expected")
    progress(done)
    while chunk := answer.read(CHUNK):
        done += len(chunk)
        if done > most:
            raise _Refused(f"it sends more than {most:,} bytes")
        stream.write(chunk)
        progress(done)
    if end is not None and done < end:
        raise ConnectionError(f"it ended after {done:,} of {end:,} bytes")


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
