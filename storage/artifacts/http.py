"""Files behind plain HTTP, read once from their start.

fsspec goes through an event loop for every piece of a file, which made pulling half as fast again;
the standard library reads from the socket. What needs more than a URL stays with fsspec.
"""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from typing import BinaryIO, cast

import fsspec

TIMEOUT = 60.0
"""Seconds without a byte after which a server counts as gone."""
_GONE = (404, 410)
_KEPT = "!#$%&'()*+,/:;=?@[]~"
"""What a URL may hold as it is; anything else is quoted."""


def is_plain(url: str, fs: fsspec.AbstractFileSystem) -> bool:
    """Say whether a URL is plain HTTP: no password in it, nothing set for it in fsspec."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme in ("http", "https") and "@" not in parts.netloc and not fs.storage_options


def open_url(url: str) -> BinaryIO:
    """Open what lies behind a URL; a file that is not there is a FileNotFoundError."""
    request = urllib.request.Request(  # noqa: S310
        urllib.parse.quote(url, safe=_KEPT), headers={"User-Agent": "gsx"}
    )
    try:
        return cast("BinaryIO", urllib.request.urlopen(request, timeout=TIMEOUT))  # noqa: S310
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _GONE:
                raise FileNotFoundError(url) from error
            raise
