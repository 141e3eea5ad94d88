"""Downloads from servers that are slow, endless or malicious, and to disks that refuse writes."""

import contextlib
import errno
import hashlib
import os
import socket
import threading
import time

import pytest

from gsx.errors import StageError, StoreError
from gsx.stages.prepare.download import catalog, download
from gsx.stages.prepare.download.catalog import REMOTE_FILES, RemoteFile
from gsx.stages.prepare.download.fetch import fetch_dataset
from gsx.stages.prepare.stage import metadata_of

CONTENT = b"x" * 100_000
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def serve():
    """Return a function that serves the chunks of an iterable to every request, as raw bytes."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()
    chunks_of = {}

    def answer(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            for chunk in chunks_of["value"]():
                if stopped.is_set():
                    return
                connection.sendall(chunk)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()

    def start(chunks, **more):
        chunks_of["value"] = chunks
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/file"
        sha = hashlib.sha256(CONTENT).hexdigest()
        return RemoteFile(**{"urls": (url,), "size": len(CONTENT), "sha256": sha, **more})

    yield start
    stopped.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def endless(head, chunk, seconds=0.0):
    def chunks():
        yield head
        while True:
            yield chunk
            time.sleep(seconds)

    return chunks


def whole():
    yield OK + b"Content-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        (endless(OK + b"\r\n", b"y" * 50_000), "the response has more than 1,248,576 bytes"),
        (endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"y" * 65536 + b"\r\n"),
         "the response has more than 1,248,576 bytes"),
        (endless(OK, b"a: b\r\n"), "the connection failed: got more than 100 headers"),
        (endless(b"", b"y" * 9999), "the connection failed: "),
        (endless(b"HTTP/1.1 302 Found\r\nLocation: /file\r\n\r\n", b"y" * 9999),
         "the server returned 302 "),
        (lambda: [b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"],
         "the server returned 302 "),
        (lambda: [b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/x\r\n\r\n"],
         "the connection failed: <urlopen error unknown url type: ftp>"),
        (lambda: [b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n"], "the connection failed: "),
        (lambda: [OK + b"Content-Length: -5\r\n\r\nabc"], "the SHA-256 of the content differs"),
        (lambda: [OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc"], "the connection failed: "),
        (lambda: [b""], "the connection failed: "),
    ],
)  # fmt: skip
def test_malicious_responses_are_rejected(serve, tmp_path, chunks, reason):
    remote = serve(chunks)
    with pytest.raises(StageError) as error:
        download.download(remote, tmp_path / "file.bin")
    assert reason in str(error.value)
    assert "yyy" not in str(error.value)[:200]
    assert "connection failed" in reason or not list(tmp_path.iterdir())


@pytest.mark.parametrize("head", [b"", OK, OK + b"Content-Length: 100000\r\n\r\n"])
def test_slow_servers_are_abandoned(serve, tmp_path, monkeypatch, head):
    monkeypatch.setenv("GSX_TIMEOUT_DOWNLOAD", "0.3")
    start = time.monotonic()
    with pytest.raises(StageError, match="the server sends less than 1,024 bytes per second"):
        download.download(serve(endless(head, b"h", 0.05)), tmp_path / "file.bin")
    monkeypatch.setenv("GSX_TIMEOUT_DOWNLOAD", "30")
    monkeypatch.setattr(download, "_BASE_SECONDS", -6)
    with pytest.raises(StageError, match="the time for this file is over"):
        download.download(serve(endless(head, b"h", 0.05)), tmp_path / "other.bin")
    assert time.monotonic() - start < 8


def test_silent_server_times_out(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_TIMEOUT_DOWNLOAD", "0.2")

    def silent():
        yield OK
        time.sleep(1)

    with pytest.raises(StageError, match=r"no byte for 0\.2 s\. Set GSX_TIMEOUT_DOWNLOAD"):
        download.download(serve(silent), tmp_path / "file.bin")


def test_full_disk_is_reported_and_leaves_nothing(serve, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(catalog, "REMOTE_FILES", {**REMOTE_FILES, "nci1/NCI1_TU.zip": serve(whole)})
    with pytest.raises(StoreError) as error:
        fetch_dataset("nci1-size", metadata_of("nci1-size"), tmp_path, lambda *_: None)
    assert str(error.value) == (
        f"{tmp_path}/nci1 cannot be written: No space left on device. Free some space, or pass "
        "another directory with `--raw DIR`."
    )
    assert [path.name for path in tmp_path.iterdir()] == [".gsx-fetch.lock"]


def test_directory_that_cannot_be_written_is_reported(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "REMOTE_FILES", {**REMOTE_FILES, "nci1/NCI1_TU.zip": serve(whole)})
    metadata = metadata_of("nci1-size")
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"cannot be written: "):
            fetch_dataset("nci1-size", metadata, folder, lambda *_: None)
    (tmp_path / "nci1").write_bytes(b"")
    with pytest.raises(StoreError, match=r"nci1 cannot be written: "):
        fetch_dataset("nci1-size", metadata, tmp_path, lambda *_: None)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_planted_partial_downloads_are_rejected(serve, tmp_path, kind):
    part = tmp_path / "file.bin.part"
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "link":
        (tmp_path / "target").write_bytes(b"mine")
        part.symlink_to(tmp_path / "target")
    else:
        part.mkdir()
    with pytest.raises(StageError, match=r"file.bin.part is not a regular file. Remove it.$"):
        download.download(serve(whole), tmp_path / "file.bin")
    assert kind != "link" or (tmp_path / "target").read_bytes() == b"mine"
