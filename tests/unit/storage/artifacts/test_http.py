"""Files over HTTP: server errors, slow and endless answers, redirects and passwords."""

import base64
import functools
import http.server
import itertools
import json
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.limits import HTTP
from gsx.storage.artifacts import http as gsx_http
from gsx.storage.artifacts.http import open_url
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.sharing.push_pull import pull
from tests.support.artifacts import blob, contents, gsx

FILES = {"a": b"some bytes", "sub/b": b"x" * 300_000}


class FaultyHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; can require a password, fail, or close the connection early."""

    wanted = None
    broken = None

    def log_message(self, *words):
        pass

    def do_GET(self):
        if not self._allowed():
            return
        if self.broken == "fails" and self.path.endswith("/b"):
            self.send_error(500)
        elif self.broken == "hangs up" and self.path.endswith("/b"):
            self.send_response(200)
            self.send_header("Content-Length", "300000")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
        elif self.broken == "turns away" and self.path.endswith("/b"):
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
        else:
            super().do_GET()

    def _allowed(self):
        if self.wanted is None or self.headers.get("Authorization") == self.wanted:
            return True
        self.send_error(401)
        return False


@contextmanager
def served(folder, **odd):
    kind = type("Served", (FaultyHandler,), odd)
    handler = functools.partial(kind, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
def made(tmp_path):
    return blob(Store.at(tmp_path / "a store"), FILES)


def address(made, tmp_path):
    return made.location.local.relative_to(tmp_path).as_posix()


def test_a_url_with_a_space_is_quoted(made, tmp_path):
    with served(tmp_path) as host:
        source = Location.at(f"http://{host}/{address(made, tmp_path)}")
        pulled, _ = pull(source, Store.at(tmp_path / "mine"))
    assert contents(pulled.location.local) == contents(made.location.local)


def test_a_password_in_the_url_is_used(made, tmp_path):
    word = "Basic " + base64.b64encode(b"me:secret").decode()
    with served(tmp_path, wanted=word) as host:
        path = address(made, tmp_path).replace(" ", "%20")
        pulled, _ = pull(
            Location.at(f"http://me:secret@{host}/{path}"), Store.at(tmp_path / "mine")
        )
        assert contents(pulled.location.local) == contents(made.location.local)
        with pytest.raises(StoreError, match="401"):
            pull(Location.at(f"http://{host}/{path}"), Store.at(tmp_path / "other"))


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        ("fails", StoreError, "HTTP Error 500"),
        ("hangs up", ArtifactError, "sub/b ended after 1,000 of 300,000 bytes"),
        ("turns away", StoreError, "the redirect to file:///etc/hostname is not allowed"),
    ],
)
def test_server_errors_are_reported_and_nothing_is_published(
    made, tmp_path, broken, error, message
):
    mine = Store.at(tmp_path / "mine")
    with served(tmp_path, broken=broken) as host:
        source = Location.at(f"http://{host}/{address(made, tmp_path)}")
        with pytest.raises(error, match=message):
            pull(source, mine)
    assert list(mine.entries()) == []
    with served(tmp_path) as host:
        pull(Location.at(f"http://{host}/{address(made, tmp_path)}"), mine)
    assert len(list(mine.entries())) == 1


# --- hostile servers ------------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def answering(*pieces, pause=0.0):
    """A server that answers every request with an iterator of bytes."""
    server = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def answer(connection):
        with connection, suppress(OSError):
            connection.recv(65536)
            for piece in itertools.chain.from_iterable(pieces):
                if stopped.wait(pause):
                    return
                connection.sendall(piece)

    def serve():
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    stopped.set()
    server.close()


def bytes_of(text):
    return (text[i : i + 1] for i in range(len(text)))


@pytest.fixture
def short_timeout(monkeypatch):
    monkeypatch.setenv("GSX_TIMEOUT_HTTP", "0.5")


SLOW = {
    "nothing": lambda: [[b""], itertools.repeat(b"")],
    "status": lambda: [bytes_of(OK * 1000)],
    "headers": lambda: [[OK], bytes_of(b"X: y\r\n" * 1000)],
    "content": lambda: [[OK, b"\r\n"], bytes_of(b" " * 10_000)],
    "chunks": lambda: [[OK, CHUNKED], itertools.repeat(b"1\r\nx\r\n")],
}  # fmt: skip


@pytest.mark.parametrize("part", SLOW)
def test_a_slow_server_ends_with_an_error(short_timeout, part):
    with answering(*SLOW[part](), pause=0.1) as url:
        started = time.monotonic()
        with pytest.raises(StoreError, match=r"too slow: .* Set GSX_TIMEOUT_HTTP"):
            Location.at(url).read_bytes("manifest.json", limit=1 << 20)
        assert time.monotonic() - started < 5


ENDLESS = {
    "headers": lambda: [[OK], itertools.repeat(b"X: " + b"y" * 60_000 + b"\r\n")],
    "interim answers": lambda: [itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")],
    "status line": lambda: [itertools.repeat(b"HTTP/1.1 200 " + b"x" * 1000)],
    "trailers": lambda: [[OK, CHUNKED, b"0\r\n"],
                         itertools.repeat(b"X: y\r\n" * 1000)],
    "chunk sizes": lambda: [[OK, CHUNKED, b"1;"], itertools.repeat(b"x" * 1000)],
    "content": lambda: [[OK, b"\r\n"], itertools.repeat(b"x" * 60_000)],
    "error page": lambda: [[b"HTTP/1.1 500 No\r\n\r\n"], itertools.repeat(b"x" * 60_000)],
    "redirect page": lambda: [[b"HTTP/1.1 302 No\r\nLocation: /a\r\n\r\n"],
                              itertools.repeat(b"x" * 60_000)],
}  # fmt: skip


@pytest.mark.parametrize("part", ENDLESS)
def test_an_endless_answer_ends_with_an_error(part):
    with answering(*ENDLESS[part]()) as url:
        started = time.monotonic()
        with pytest.raises((StoreError, ArtifactError)) as caught:
            Location.at(url).read_bytes("manifest.json", limit=1 << 20)
        assert time.monotonic() - started < 5
    assert "limit of 1048576 bytes" in str(caught.value) or url in str(caught.value)


@pytest.mark.parametrize("status", [b"204 No Content", b"206 Partial Content"])
def test_other_answers_are_refused(status):
    with (
        answering([b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"]) as url,
        pytest.raises(StoreError, match="expected 200"),
    ):
        open_url(url)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("http://host/a", "file:///etc/passwd"),
        ("http://host/a", "ftp://host/a"),
        ("http://host/a", "data:,x"),
        ("https://host/a", "http://host/a"),
        ("http://host/a", ""),
    ],
)
def test_redirects_that_are_not_followed(source, target):
    redirects = gsx_http._Redirects()
    redirects.parent = None
    request = urllib.request.Request(source)
    if not target:
        redirects._count = gsx_http.MAX_REDIRECTS
    with pytest.raises(StoreError, match=r"not allowed|more than 5 redirects"):
        redirects.http_error_302(request, socket.socket(), 302, "", {"Location": target})


def test_a_password_is_not_sent_to_another_server(tmp_path):
    received = []

    class Receiver(FaultyHandler):
        def do_GET(self):
            received.append(self.headers.get("Authorization"))
            super().do_GET()

    (tmp_path / "file").write_bytes(b"x")
    with served(tmp_path) as host:
        handler = functools.partial(Receiver, directory=str(tmp_path))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()

            target = f"http://127.0.0.1:{other.server_port}/file"
            redirect = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode()
            with answering([redirect]) as url:
                secret = url.replace("http://", "http://me:secret@")
                assert open_url(f"{secret}/file").read(10) == b"x"
            other.shutdown()
    assert received == [None]
    assert host


@pytest.mark.parametrize("text", ["", "-1", "0", "x", "nan", "inf"])
def test_the_timeout_is_a_positive_number(monkeypatch, text):
    monkeypatch.setenv("GSX_TIMEOUT_HTTP", text)
    if not text:
        assert HTTP.value == 20
        return
    with pytest.raises(UsageError, match="GSX_TIMEOUT_HTTP"):
        assert HTTP.value


def test_finding_a_tag_has_a_time_limit(made, tmp_path, monkeypatch):
    store = made.location.local.parents[1]
    (store / ".tags").mkdir()
    tag = {"kind": "blob", "key": made.key, "digest": "0" * 64, "date": "2026-01-01"}
    (store / ".tags/slow.json").write_text(json.dumps(tag))
    monkeypatch.setenv("GSX_TIMEOUT_LIST", "0.000001")
    with served(store) as host, pytest.raises(StoreError, match="GSX_TIMEOUT_LIST"):
        Store.at(f"http://{host}").locate("slow")


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("show",), ("verify",), ("describe",), ("export",), ("report",), ("lineage",)]
)
def test_commands_name_pull_for_an_artifact_on_a_web_server(made, tmp_path, words):
    with served(tmp_path) as host:
        url = f"http://{host}/{address(made, tmp_path)}".replace(" ", "%20")
        target = [tmp_path / "out"] if words == ("export",) else []
        result = gsx(*words, url, *target, "--store", tmp_path / "mine")
    assert result.code == 3
    assert f"gsx pull {url}" in result.err + result.out
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "words",
    [("ls",), ("verify", "--all"), ("show", "abcd"), ("lineage", "abcd"), ("doctor",),
     ("prepare", "motif-size", "--num-graphs", 30), ("export", "abcd", "out"),
     ("describe", "abcd")],
)  # fmt: skip
def test_a_store_on_a_web_server_is_refused_without_listing(tmp_path, words):
    with answering([OK, b"\r\n"], (b'<a href="%d/">x</a>' % n for n in itertools.count())) as url:
        result = gsx(*words, "--store", url)
    assert result.code == 3
    assert "gsx pull" in result.err + result.out
    assert "Traceback" not in result.err


def test_passwords_are_in_no_message_and_no_output(made, tmp_path):
    with served(tmp_path) as host:
        path = address(made, tmp_path).replace(" ", "%20")
        url = f"http://me:secret@{host}/{path}?token=secret"
        for words in (("show", url), ("verify", url), ("ls", "--store", url), ("pull", url),
                      ("verify", url, "--json"), ("doctor", "--store", url, "--json"),
                      ("pull", f"http://me:secret@{host}/none"), ("show", "abcd", "--store", url),
                      ("pull", made.key, "--from", f"http://me:secret@{host}")):  # fmt: skip
            result = gsx(*words, *(() if "--store" in words else ("--store", tmp_path / "mine")))
            assert "secret" not in result.out + result.err, words
            assert "***@" in result.out + result.err or result.code == 0, words
    assert "secret" not in repr(Location.at(url))


def test_a_listing_that_never_ends_is_reported(monkeypatch):
    monkeypatch.setenv("GSX_TIMEOUT_LIST", "0.2")
    location = Location.at("memory://store")
    for name in ("find", "glob"):
        monkeypatch.setattr(location.fs, name, lambda *_, **__: time.sleep(3), raising=False)
    for list_files in (location.sizes, lambda: location.glob("*")):
        with pytest.raises(StoreError, match=r"longer than 0\.2 s\. .* Set GSX_TIMEOUT_LIST"):
            list_files()
