"""Downloads of raw files from a local test server: verified, resumed or rejected."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from filelock import FileLock

from gsx.cli.main import cli
from gsx.errors import GsxError, StageError, UsageError
from gsx.stages.prepare.download import catalog
from gsx.stages.prepare.download.catalog import REMOTE_FILES, RemoteFile
from gsx.stages.prepare.download.download import download
from gsx.stages.prepare.download.fetch import fetch_dataset
from gsx.stages.prepare.stage import FAMILIES, metadata_of

CONTENT = bytes(range(256)) * 4096
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``content`` and records requests; the first ``breaks`` responses are truncated."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.breaks, self.ranges, self.code = CONTENT, 0, True, None
        self.requests = []

    def remote(self, path="/file", **more):
        url = f"http://127.0.0.1:{self.server_port}{path}"
        return RemoteFile(**{"urls": (url,), "size": len(CONTENT), "sha256": SHA, **more})


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        byte_range = self.headers.get("Range")
        server.requests.append((self.path, byte_range))
        if server.code is not None or self.path == "/none":
            self.send_error(server.code or 404)
            return
        start = int(byte_range[6:-1]) if byte_range and server.ranges else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            last = len(server.content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(server.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks:
            server.breaks -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_download_is_verified(server, tmp_path):
    progress = []
    download(server.remote(), tmp_path / "sub" / "file.bin", progress.append)
    assert (tmp_path / "sub" / "file.bin").read_bytes() == CONTENT
    assert names(tmp_path / "sub") == ["file.bin"]
    assert progress[0] == 0
    assert progress[-1] == len(CONTENT)


def test_interrupted_download_resumes(server, tmp_path):
    server.breaks = 2
    download(server.remote(), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    half, three_quarters = len(CONTENT) // 2, 3 * len(CONTENT) // 4
    assert [byte_range for _, byte_range in server.requests] == [
        None,
        f"bytes={half}-",
        f"bytes={three_quarters}-",
    ]


def test_partial_download_is_kept_for_the_next_run(server, tmp_path):
    server.breaks = 3
    with pytest.raises(StageError, match="the connection failed"):
        download(server.remote(), tmp_path / "file.bin")
    assert names(tmp_path) == ["file.bin.part"]
    download(server.remote(), tmp_path / "file.bin")
    assert names(tmp_path) == ["file.bin"]
    assert server.requests[-1][1] == f"bytes={len(CONTENT) * 7 // 8}-"


def test_server_without_range_support_restarts_the_download(server, tmp_path):
    server.ranges, server.breaks = False, 1
    download(server.remote(), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [100, len(CONTENT), 2 * len(CONTENT)])
def test_partial_download_of_another_file_is_replaced(server, tmp_path, size):
    (tmp_path / "file.bin.part").write_bytes(b"x" * size)
    download(server.remote(), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_file_with_wrong_hash_is_discarded(server, tmp_path):
    server.content = CONTENT[::-1] + b"x"
    with pytest.raises(StageError) as error:
        download(server.remote(), tmp_path / "file.bin")
    url = server.remote().urls[0]
    assert str(error.value) == (
        f"file.bin: download failed:\n  {url}: the SHA-256 of the content differs from the "
        "catalog\nRetry later, or download the file yourself and save it as "
        f"{tmp_path / 'file.bin'}."
    )
    assert names(tmp_path) == []


def test_oversized_response_is_rejected_before_reading(server, tmp_path):
    server.content = CONTENT * 4
    with pytest.raises(
        StageError, match=r"the response has 4,194,304 bytes; at most 1,048,596 are"
    ):
        download(server.remote(size=10), tmp_path / "other.bin")


def test_next_url_is_tried_after_a_failure(server, tmp_path):
    (good,) = server.remote().urls
    both = server.remote(urls=(good.replace("/file", "/none"), good))
    download(both, tmp_path / "file.bin")
    assert [path for path, _ in server.requests] == ["/none", "/file"]
    server.code = 503
    with pytest.raises(StageError, match=r"the server returned 503 Service Unavailable"):
        download(server.remote(), tmp_path / "more.bin")
    with pytest.raises(StageError, match=r"file:///etc/passwd: not an HTTP URL"):
        download(server.remote(urls=("file:///etc/passwd",)), tmp_path / "more.bin")


def test_line_endings_do_not_affect_the_hash_of_texts(server, tmp_path):
    digest = hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    for text in (b"a,b\n1,2\n", b"a,b\r\n1,2\r\n", b"a,b\n\n1,2"):
        server.content = text
        download(server.remote(size=9, sha256=digest, lines=True), tmp_path / "t.csv")
        assert (tmp_path / "t.csv").read_bytes() == text


@pytest.fixture
def nci1(server, monkeypatch):
    """Serve NCI1 from the test server."""
    served = {**REMOTE_FILES, "nci1/NCI1_TU.zip": server.remote()}
    monkeypatch.setattr(catalog, "REMOTE_FILES", served)
    return server


def gsx(*words):
    return CliRunner().invoke(cli, words)


def test_fetch_command_downloads_missing_files(nci1, tmp_path):
    raw = str(tmp_path)
    result = gsx("fetch", "nci1-size", "--raw", raw)
    assert result.exit_code == 0
    assert result.stdout == (
        f"downloaded        1.0 MB  {tmp_path}/nci1/NCI1_TU.zip\n"
        f"next: gsx prepare nci1-size --raw {tmp_path}\n"
    )
    shown = json.loads(gsx("fetch", "nci1-size", "--raw", raw, "--json").stdout)
    assert shown["files"] == [
        {"path": f"{tmp_path}/nci1/NCI1_TU.zip", "bytes": len(CONTENT), "reused": True}
    ]
    assert len(nci1.requests) == 1


def test_existing_file_under_another_name_is_reused(nci1, tmp_path):
    (tmp_path / "nci1").mkdir()
    (tmp_path / "nci1" / "NCI1.zip").write_bytes(b"mine")
    metadata = metadata_of("nci1-size")
    (fetched,) = fetch_dataset("nci1-size", metadata, tmp_path, lambda *_: None)
    assert (fetched.reused, fetched.path.name, nci1.requests) == (True, "NCI1.zip", [])


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("motif-size", True, "motif-size is synthetic and needs no files. Run `gsx prepare motif-"),
        ("cora-word", True, "cora-word: no download for cora/cora.npz (the full Cora graph"),
        ("nci1-size", False, "no raw data directory is set. Pass `--raw DIR` or set GSX_RAW_DATA."),
        ("nci1-sise", True, "no dataset `nci1-sise`. Did you mean `nci1-size`?"),
    ],
)  # fmt: skip
def test_invalid_fetches_are_rejected(tmp_path, name, raw, message):
    result = gsx("fetch", name, *(("--raw", str(tmp_path)) if raw else ()))
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(message)


def test_concurrent_fetches_into_one_folder_are_rejected(nci1, tmp_path):
    with FileLock(tmp_path / ".gsx-fetch.lock"):
        result = gsx("fetch", "nci1-size", "--raw", str(tmp_path))
    assert isinstance(result.exception, GsxError)
    assert str(result.exception).startswith(f"another `gsx fetch` is writing to {tmp_path}.")


def test_catalog_lists_files_of_datasets():
    read = {
        path
        for family in FAMILIES
        for name in family.names
        for raw in family.metadata(name).raw
        for path in raw.paths
    }
    assert REMOTE_FILES.keys() <= read
    for remote in REMOTE_FILES.values():
        assert all(url.startswith("https://") for url in remote.urls)
        assert len(remote.sha256) == 64
    rows = json.loads(gsx("datasets", "--json").stdout)["datasets"]
    assert {row["name"] for row in rows if row["fetch"]} == {
        "hiv-size", "hiv-scaffold", "dd-size", "nci1-size", "cmnist-color", "webkb-university",
        "webkb-aligned", "twitch-language", "cora-ml-word", "coauthor-cs-word",
    }  # fmt: skip


def test_catalog_hashes_match_raw_files(raw_file):
    for name in ("dd/DD.zip", "nci1/NCI1_TU.zip", "cora_ml/cora_ml.npz"):
        assert hashlib.sha256(raw_file(name).read_bytes()).hexdigest() == REMOTE_FILES[name].sha256
