"""Sequential reads over HTTP with the standard library, limited in time, redirects and bytes.

Web servers are only copied from: they have no reliable list of files, so everything but `stream` of
a location refuses and names `gsx pull`. A server cannot hold a command for ever: it must send
``MIN_RATE`` bytes per second on average, over every period of waiting as long as the timeout.
"""

from __future__ import annotations

import base64
import http.client
import io
import math
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, BinaryIO, NoReturn, cast

import fsspec

from gsx.errors import StoreError
from gsx.escape import redact_urls
from gsx.limits import HTTP

WEB = ("http://", "https://")
MIN_RATE = 1000
"""Bytes per second."""
MAX_REDIRECTS = 5
MAX_OVERHEAD = 1 << 20
"""Bytes of headers and framing, besides the content, that one read accepts."""
METADATA_FACTOR = 10
"""Timeouts that a manifest or another small file may take altogether."""
_NOT_FOUND = (404, 410)
_SAFE = "!#$%&'()*+,/:;=?@[]~"
"""Characters of a URL that are not quoted."""


def open_url(url: str, *, metadata: bool = False) -> BinaryIO:
    """Open a URL for reading; raise FileNotFoundError for HTTP status 404 and 410.

    ``metadata`` limits the time of the whole response, for small files. User name and password of
    the URL are sent as basic authentication.
    """
    timeout = HTTP.value
    plain_url, headers = _split_credentials(urllib.parse.quote(url, safe=_SAFE))
    request = urllib.request.Request(  # noqa: S310
        plain_url, headers={"User-Agent": "gsx", "Accept-Encoding": "identity", **headers}
    )
    limits = _Limits(redact_urls(url), timeout)
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
        _Http(limits),
        _Https(limits),
    ):
        opener.add_handler(handler)
    try:
        response = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _NOT_FOUND:
                raise FileNotFoundError(redact_urls(url)) from error
            raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, StoreError | TimeoutError):
            limits.fail()
        raise
    except TimeoutError:
        limits.fail()
    if response.status != http.client.OK:
        response.close()
        raise StoreError(f"{redact_urls(url)}: HTTP status {response.status}, expected 200.")
    limits.deadline = time.monotonic() + METADATA_FACTOR * timeout if metadata else math.inf
    return cast("BinaryIO", _Content(response, limits))


def _split_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without user name and password, and the header that carries them."""
    parts = urllib.parse.urlsplit(url)
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    encoded = base64.b64encode(urllib.parse.unquote_to_bytes(credentials)).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}


class _Limits:
    """Limits of one request, checked whenever bytes arrive."""

    def __init__(self, url: str, timeout: float) -> None:
        self.url, self.timeout = url, timeout
        self.deadline = time.monotonic() + timeout * (MAX_REDIRECTS + 1)
        self.budget = MAX_OVERHEAD
        self._waited, self._received = 0.0, 0

    def fail(self) -> NoReturn:
        """Raise StoreError about a server that is too slow."""
        raise StoreError(
            f"{self.url}: the server is too slow: it must send {MIN_RATE:,} bytes per second, "
            f"averaged over {self.timeout:g} s of waiting, and small files within "
            f"{METADATA_FACTOR * self.timeout:g} s. Try again later. "
            f"{HTTP.advice}"
        )

    def count(self, num_bytes: int, waited: float) -> None:
        """Count received bytes and raise StoreError if a limit is exceeded."""
        self._waited += waited
        self._received += num_bytes
        self.budget -= num_bytes
        if self.budget < 0:
            raise StoreError(
                f"{self.url}: the server sends more than {MAX_OVERHEAD:,} bytes of headers and "
                "framing. Nothing was read. Check the URL."
            )
        if time.monotonic() > self.deadline:
            self.fail()
        if self._waited >= self.timeout:
            if self._received < MIN_RATE * self._waited:
                self.fail()
            self._waited, self._received = 0.0, 0


class _LimitedSocket:
    """A socket whose files are read within limits."""

    def __init__(self, connected: socket.socket, limits: _Limits) -> None:
        self._socket, self._limits = connected, limits

    def makefile(self, mode: str, *_: object) -> io.BufferedReader:
        """Return a buffered file for reading."""
        raw = cast("Any", self._socket).makefile(mode, buffering=0)
        return io.BufferedReader(_LimitedFile(raw, self._limits))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._socket, name)


class _LimitedFile(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, limits: _Limits) -> None:
        self._raw, self._limits = raw, limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401
        started = time.monotonic()
        try:
            num_bytes = self._raw.readinto(buffer)
        except TimeoutError:
            self._limits.fail()
        self._limits.count(num_bytes or 0, time.monotonic() - started)
        return num_bytes

    def close(self) -> None:
        self._raw.close()
        super().close()


class _HttpConnection(http.client.HTTPConnection):
    limits: _Limits

    def connect(self) -> None:
        super().connect()
        self.sock = cast("Any", _LimitedSocket(self.sock, self.limits))


class _HttpsConnection(http.client.HTTPSConnection):
    limits: _Limits

    def connect(self) -> None:
        super().connect()
        self.sock = cast("Any", _LimitedSocket(self.sock, self.limits))


class _Http(urllib.request.HTTPHandler):
    def __init__(self, limits: _Limits) -> None:
        super().__init__()
        self._connect = _connection_factory(_HttpConnection, limits)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connect, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, limits: _Limits) -> None:
        super().__init__()
        self._connect = _connection_factory(_HttpsConnection, limits)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connect, req)


def _connection_factory(
    connection_class: type[_HttpConnection | _HttpsConnection], limits: _Limits
) -> Any:  # noqa: ANN401
    def connect(host: str, **options: Any) -> http.client.HTTPConnection:  # noqa: ANN401
        connection = connection_class(host, **options)
        connection.limits = limits
        return connection

    return connect


class _Redirects(urllib.request.BaseHandler):
    """Follows a few redirects, never to other protocols, and never from https to http."""

    def __init__(self) -> None:
        self._count = 0

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: BinaryIO,
        code: int,
        msg: str,
        headers: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        fp.close()
        source, target = req.full_url, headers.get("Location") or ""
        target = urllib.parse.urljoin(source, urllib.parse.quote(target, safe=_SAFE))
        self._count += 1
        where = f"{redact_urls(source)}: HTTP status {code}"
        if self._count > MAX_REDIRECTS:
            raise StoreError(f"{where}: more than {MAX_REDIRECTS} redirects. Check the URL.")
        if not target.startswith("https://" if source.startswith("https://") else WEB):
            raise StoreError(
                f"{where}: the redirect to {redact_urls(target)} is not allowed. gsx follows "
                "redirects to http and https only, and none from https to http."
            )
        plain_url, _ = _split_credentials(target)
        redirected = urllib.request.Request(plain_url, headers=dict(req.headers))  # noqa: S310
        if urllib.parse.urlsplit(source)[:2] != urllib.parse.urlsplit(plain_url)[:2]:
            redirected.remove_header("Authorization")
        return self.parent.open(redirected, timeout=req.timeout)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Content:
    """Content of a response, for sequential reads of a known size."""

    def __init__(self, response: http.client.HTTPResponse, limits: _Limits) -> None:
        self._response, self._limits = response, limits

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer at the end."""
        self._limits.budget = 2 * size + MAX_OVERHEAD
        return self._response.read(size)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()

    def __enter__(self) -> _Content:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WebFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """File system of web servers, for `Location`; all its operations are refused."""

    protocol = ("http", "https")

    def _refuse(self, path: str, *_: object, **__: object) -> NoReturn:
        url = redact_urls(path.removesuffix("/*/*/manifest.json"))
        artifact = f"{url}/KIND/NAME" if path != url and path.endswith("*/manifest.json") else "URL"
        raise StoreError(
            f"{url} is on a web server, from which gsx can only copy artifacts: it has no list of "
            f"files and is never written.\nCopy an artifact with `gsx pull {artifact}`, then use "
            "the copy."
        )

    ls = find = glob = info = exists = modified = created = open = _refuse
    pipe_file = put_file = cat_file = rm_file = _refuse
