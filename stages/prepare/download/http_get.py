"""HTTP requests with limits on redirects, idle time, total time and speed."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from email.message import Message
from typing import IO, Any, cast

from gsx.limits import DOWNLOAD

MIN_SPEED = 1024
"""Bytes per second below which a connection fails, averaged over the timeout."""
MAX_REDIRECTS = 5
_TIME_IS_OVER = "the server is too slow: the time for this file is over"


class SlowServerError(Exception):
    """The server is too slow to wait for."""


def open_http(url: str, headers: dict[str, str], seconds: float) -> http.client.HTTPResponse:
    """Open a URL for reading; all reads together may take ``seconds``."""
    deadline = time.monotonic() + seconds
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _HTTPHandler(deadline),
        _HTTPSHandler(deadline),
        _RedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    return cast("http.client.HTTPResponse", opener.open(request, timeout=DOWNLOAD.value))


class _TimedReader(io.RawIOBase):
    """Bytes of a socket; fails after the deadline, or if they come too slowly."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._raw = cast("io.RawIOBase", connection.makefile("rb", buffering=0))
        self._deadline = deadline
        self._span_start, self._span_bytes = time.monotonic(), 0
        self._timeout = DOWNLOAD.value

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401
        now = time.monotonic()
        if now > self._deadline:
            raise SlowServerError(_TIME_IS_OVER)
        if now - self._span_start > self._timeout:
            if self._span_bytes < MIN_SPEED * self._timeout:
                raise SlowServerError(
                    f"the server sends less than {MIN_SPEED:,} bytes per second, averaged over "
                    f"{self._timeout:g} s. {DOWNLOAD.advice}"
                )
            self._span_start, self._span_bytes = now, 0
        self._connection.settimeout(min(self._timeout, max(self._deadline - now, 0.01)))
        try:
            read = self._raw.readinto(buffer)
        except TimeoutError as error:
            if time.monotonic() > self._deadline:
                raise SlowServerError(_TIME_IS_OVER) from error
            raise TimeoutError(f"no byte for {self._timeout:g} s. {DOWNLOAD.advice}") from error
        self._span_bytes += read or 0
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """A socket whose file is a `_TimedReader`."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> IO[bytes]:
        """Return a reader; http.client asks for one per response."""
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self._connection, self._deadline))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._connection, name)


class _HTTPConnection(http.client.HTTPConnection):
    def __init__(self, host: str, *, timeout: float, deadline: float) -> None:
        super().__init__(host, timeout=timeout)
        self._deadline = deadline

    def connect(self) -> None:
        super().connect()
        self.sock = cast("socket.socket", _TimedSocket(self.sock, self._deadline))


class _HTTPSConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, *, timeout: float, deadline: float) -> None:
        super().__init__(host, timeout=timeout)
        self._deadline = deadline

    def connect(self) -> None:
        super().connect()
        self.sock = cast("socket.socket", _TimedSocket(self.sock, self._deadline))


class _HTTPHandler(urllib.request.HTTPHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(cast("Any", _HTTPConnection), req, deadline=self._deadline)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(cast("Any", _HTTPSConnection), req, deadline=self._deadline)


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    max_redirections = MAX_REDIRECTS

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message
    ) -> Any:  # noqa: ANN401
        """Follow a redirect; its body, which may be endless, is not read."""
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, cast("Any", headers))

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
