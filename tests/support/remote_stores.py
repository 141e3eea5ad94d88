"""Fixtures of remote stores: in memory, on a local S3 server, and with faulty file systems.

``conftest.py`` imports the fixtures, so that every test can use them.
"""

import contextlib
import gc
import logging
import secrets
import warnings

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

ACCESS, SECRET = "AKIATESTTESTTEST", "not-a-real-secret-0123456789"
UNCLOSED = "Unclosed (client session|connector)"
ignore_unclosed_sessions = pytest.mark.filterwarnings(f"ignore:{UNCLOSED}:ResourceWarning")
"""Mark for tests of S3 stores: s3fs leaves its sessions to the garbage collector."""


@pytest.fixture(scope="module")
def s3_server():
    """Yield the URL of an S3 server on a free local port."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """Yield the URL of an empty store in a new S3 bucket."""
    import boto3
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    bucket = f"bucket-{secrets.token_hex(8)}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    yield f"s3://{bucket}/some/prefix"
    s3fs.S3FileSystem.clear_instance_cache()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNCLOSED, ResourceWarning)
        gc.collect()  # here, so that the warnings do not appear during another test


@pytest.fixture
def memory():
    """Yield the URL of an empty store in memory."""
    yield "memory://test-remote/some/prefix"
    with contextlib.suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/test-remote", recursive=True)


def list_files(store):
    """Return the paths of all files in a remote store, sorted."""
    location = store.location
    location.fs.invalidate_cache()
    paths = location.fs.find(location.root)
    return sorted(path.removeprefix(location.root + "/") for path in paths)


class OverwritingFileSystem(MemoryFileSystem):
    """Ignores create-only mode and overwrites files, as some object stores do."""

    protocol = "careless"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        return super().pipe_file(path, value, mode="overwrite", **kwargs)


class LockedFileSystem(MemoryFileSystem):
    """Fails without credentials."""

    protocol = "locked"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def glob(self, path, **kwargs):
        from botocore.exceptions import NoCredentialsError

        raise NoCredentialsError


class ReadOnlyFileSystem(MemoryFileSystem):
    """Denies every write."""

    protocol = "frozen"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        raise PermissionError("Access Denied")


@pytest.fixture
def faulty_stores():
    """Register the URL schemes ``careless://``, ``locked://`` and ``frozen://``."""
    for file_system in (OverwritingFileSystem, LockedFileSystem, ReadOnlyFileSystem):
        fsspec.register_implementation(file_system.protocol, file_system, clobber=True)
