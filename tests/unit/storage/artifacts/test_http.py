"""Files over plain HTTP: server errors, and URLs that need fsspec."""

import base64
import functools
import http.server
import threading
from contextlib import contextmanager

import pytest

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.sharing.push_pull import pull
from tests.support.artifacts import blob, contents

FILES = {"a": b"some bytes", "sub/b": b"x" * 300_000}


class FaultyHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; can require a password, fail, or close the connection early."""

    wanted = None
    broken = None

    def log_message(self, *words):
        pass

    def do_HEAD(self):  # fsspec sends the password as well
        if self._allowed():
            super().do_HEAD()

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
        ("turns away", StoreError, "Redirection to url 'file:///etc/hostname' is not allowed"),
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
