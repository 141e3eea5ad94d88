"""A hostile HTTP server: endless, slow, lying, redirecting, or serving another kind of content."""

from __future__ import annotations

import contextlib
import http.server
import os
import random
import threading
import time
from typing import Any

from tests.fuzz.edits import apply
from tests.fuzz.manifests import copy_tree, rehash
from tests.fuzz.oracles import run_gsx
from tests.fuzz.sandbox import Box
from tests.fuzz.target import Case, Operation, Target

BEHAVIOURS = (
    "drip",
    "endless",
    "endless listing",
    "huge listing",
    "nested listing",
    "short",
    "long",
    "huge length",
    "negative length",
    "text length",
    "no length",
    "chunked garbage",
    "gzip",
    "hang up",
    "silent",
    "status 500",
    "status 404",
    "status 401",
    "status 206",
    "status 204",
    "redirect loop",
    "redirect to file",
    "redirect chain",
    "redirect elsewhere",
    "html",
    "empty",
    "long header",
    "many headers",
    "bad status line",
    "strange links",
    "null bytes",
    "not modified",
)
PLACES = ("manifest", "data", "folder", "head", "all", "sidecar")
RUN = (
    "pull",
    "pull-key",
    "show",
    "verify",
    "describe",
    "lineage",
    "export",
    "ls",
    "open",
    "generate",
)


class HttpTarget(Target):
    """A store behind a hostile server."""

    name = "http"
    weight = 0.4

    def draw(self, rng: random.Random) -> Case:
        """Return a behaviour of the server and a command."""
        return {
            "target": self.name,
            "seed": "parquet",
            "edits": [],
            "behaviour": rng.choice(BEHAVIOURS),
            "place": rng.choice(PLACES),
            "after": rng.choice((0, 0, 1, 3)),
            "run": [rng.choice(RUN)],
        }

    def place(self, box: Box, case: Case) -> None:
        """Copy the artifact and start the server."""
        from gsx.storage.artifacts import http as client

        entry = self.catalogue[case["seed"]]
        self._key = entry["key"]
        root = box.in_ / "store" / "corpus" / self._key[:32]
        root.parent.mkdir(parents=True)
        copy_tree(self.seeds / "artifacts" / case["seed"], root)
        for edit in case["edits"]:
            apply(root, edit, box.canary)
        if case["edits"]:
            rehash(root, sync=True)
        # A test needs shorter times than a network.
        os.environ |= {"GSX_TIMEOUT_HTTP": "0.5", "GSX_TIMEOUT_LIST": "4"}
        client.TIMEOUT = 2.0
        handler = type(
            "Hostile",
            (Handler,),
            {
                "behaviour": case["behaviour"],
                "where": case["place"],
                "left": case["after"],
                "folder": str(box.in_ / "store"),
                "canary": str(box.canary),
            },
        )
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._url = f"http://127.0.0.1:{self._server.server_port}"

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a command that reads from the server."""
        artifact = f"{self._url}/corpus/{self._key[:32]}"
        words: dict[str, tuple] = {
            "pull": ("pull", artifact, "--store", box.store),
            "pull-key": ("pull", self._key, "--from", self._url, "--store", box.store),
            "show": ("show", artifact),
            "verify": ("verify", artifact),
            "describe": ("describe", artifact, "--store", box.store),
            "lineage": ("lineage", artifact),
            "export": ("export", artifact, box.out / "export", "--store", box.store),
            "ls": ("ls", "--store", self._url),
            "generate": (
                "generate",
                artifact,
                "--options",
                "001",
                "--bridges",
                "none",
                "--count",
                4,
                "--store",
                box.store,
            ),
        }

        def run() -> Any:
            try:
                if name == "open":
                    import gsx

                    return len(list(gsx.open(artifact).iter_tables())) and None
                return run_gsx(*words[name])
            finally:
                threading.Thread(target=self._server.shutdown, daemon=True).start()

        return run


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files correctly, except where the case wants something else."""

    behaviour = where = folder = canary = ""
    left = 0
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=self.folder)

    def log_message(self, *_words: object) -> None:
        """Print nothing."""

    def handle(self) -> None:
        """Ignore clients that hang up."""
        with contextlib.suppress(OSError):
            super().handle()

    def do_HEAD(self) -> None:
        """Answer a request without body."""
        self._answer(super().do_HEAD)

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(super().do_GET)

    def _answer(self, honest: Any) -> None:
        name = self.path.rsplit("/", 1)[-1]
        is_place = {
            "manifest": name == "manifest.json",
            "sidecar": name in ("run.json", "manifest.json.minisig", "corpus.json"),
            "data": name.endswith((".parquet", ".json")) and name != "manifest.json",
            "folder": "." not in name,
            "head": self.command == "HEAD",
            "all": True,
        }[self.where]
        if not is_place:
            honest()
        elif self.left > 0:
            type(self).left -= 1
            honest()
        else:
            self._hostile()

    def _start(self, status: int = 200, **headers: object) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()

    def _hostile(self) -> None:
        what, write = self.behaviour, self.wfile.write
        self.close_connection = True
        if what.startswith("status"):
            self._start(int(what.split()[1]), Content_Length=0)
        elif what == "drip":
            self._start(Content_Length=100_000)
            for _ in range(200):
                write(b"{")
                time.sleep(0.5)
        elif what == "endless":
            self._start()
            block = b'{"a": ' * 10_000
            for _ in range(100_000):
                write(block)
        elif what in ("endless listing", "huge listing"):
            self._start(Content_Type="text/html")
            for number in range(10**9 if what == "endless listing" else 300_000):
                write(f'<a href="{number:032x}/">x</a>\n'.encode())
        elif what == "nested listing":
            links = "".join(f'<a href="{n}/">x</a><a href="{n}/manifest.json">m</a>' for n in "abc")
            self._start(Content_Type="text/html", Content_Length=len(links))
            write(links.encode())
        elif what == "strange links":
            names = (
                "../../../..",
                "/etc/passwd",
                f"file://{self.canary}/secret.txt",
                "//127.0.0.1:1/x",
                "%00",
                "%2e%2e/%2e%2e/x",
                "javascript:x",
                "\x1b[31m",
                "a" * 5000,
                "?q",
                "#f",
                "",
            )
            text = "".join(f'<a href="{name}">x</a>' for name in names).encode()
            self._start(Content_Type="text/html", Content_Length=len(text))
            write(text)
        elif what in _LENGTHS:
            self._start(**({"Content_Length": _LENGTHS[what]} if _LENGTHS[what] else {}))
            write(b"{" * 500)
        elif what == "chunked garbage":
            self._start(Transfer_Encoding="chunked")
            write(b"ffffffffffffffffff\r\nxx\r\n-1\r\nzz\r\n")
        elif what == "gzip":
            self._start(Content_Encoding="gzip", Content_Length=5)
            write(b"\x1f\x8b\x08\x00x")
        elif what == "silent":
            time.sleep(30)
        elif what == "redirect loop":
            self._start(302, Location=self.path, Content_Length=0)
        elif what == "redirect chain":
            self._start(302, Location=f"{self.path}?{time.time_ns()}", Content_Length=0)
        elif what == "redirect to file":
            self._start(302, Location=f"file://{self.canary}/manifest.json", Content_Length=0)
        elif what == "redirect elsewhere":
            self._start(302, Location="http://127.0.0.1:1/manifest.json", Content_Length=0)
        elif what == "html":
            text = b"<html><body>Welcome</body></html>"
            self._start(Content_Type="text/html", Content_Length=len(text))
            write(text)
        elif what == "empty":
            self._start(Content_Length=0)
        elif what == "long header":
            self._start(X_Long="x" * 100_000)
        elif what == "many headers":
            self._start(**{f"X_{number}": number for number in range(500)})
        elif what == "bad status line":
            write(b"HTTP/9.9 abc \x00\r\n\r\n")
        elif what == "null bytes":
            self._start(Content_Length=1000)
            write(bytes(1000))
        elif what == "not modified":
            self._start(304)
        # "hang up": nothing is sent


_LENGTHS = {
    "short": 100_000,
    "long": 10,
    "huge length": 10**30,
    "negative length": -5,
    "text length": "abc",
    "no length": None,
}
