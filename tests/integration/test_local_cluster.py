"""Local workers: only the processes of a run can connect to its scheduler."""

import asyncio
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import dask
import distributed
import psutil
import pytest

from gsx.errors import UsageError
from gsx.pipeline.distributed import cluster
from gsx.pipeline.distributed.cluster_options import ClusterOptions

pytestmark = pytest.mark.timeout(300)  # many processes start, and machines may be busy


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scratch")
    config = {**cluster.DASK_CONFIG, **cluster.WITHOUT_DASHBOARD}
    config["temporary-directory"] = str(folder)
    with (
        dask.config.set(config),
        cluster._open_client(ClusterOptions(workers=1), Path(folder)) as client,
    ):
        yield client


def test_workers_run_tasks_over_tls(client):
    assert client.scheduler.address.startswith("tls://127.0.0.1:")
    assert client.submit(sum, [1, 2]).result() == 3


def addresses(client):
    """Return the addresses of the scheduler, the worker and its nanny."""
    info = client.scheduler_info()
    workers = info["workers"]
    return [info["address"], *workers, *(worker["nanny"] for worker in workers.values())]


@pytest.mark.parametrize("credentials", ["none", "no certificate", "other certificate"])
def test_other_processes_cannot_connect(client, credentials):
    """Speak the protocol of Dask without, and with other, credentials."""
    assert len(addresses(client)) == 3
    for address in addresses(client):
        host, _, port = address.removeprefix("tls://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            if credentials == "none":
                plain.sendall(bytes(64))
                assert not answered(plain)
                continue
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if credentials == "other certificate":
                other = distributed.Security.temporary()
                context = other.get_connection_args("client")["ssl_context"]
                context.verify_mode = ssl.CERT_NONE
            with pytest.raises((OSError, AssertionError)), context.wrap_socket(plain) as secure:
                assert answered(secure)


def answered(connection):
    """Return whether the other side sends its handshake instead of closing the connection."""
    try:
        return len(connection.recv(1000)) > 0
    except OSError:
        return False


async def connect(address, **arguments):
    """Open a connection with Dask's protocol and close it."""
    connection = await distributed.comm.connect(address, timeout=5, **arguments)
    await connection.close()


def test_dask_clients_without_the_credentials_are_refused(client):
    other = distributed.Security.temporary().get_connection_args("client")
    for address in addresses(client):
        with pytest.raises(OSError):
            asyncio.run(connect(address, **other))
        with pytest.raises(OSError):
            asyncio.run(connect(address.replace("tls://", "tcp://")))


def test_nothing_listens_on_other_interfaces_and_there_are_no_pages(client):
    process = psutil.Process()
    listening = [
        connection.laddr
        for member in (process, *process.children(recursive=True))
        for connection in member.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip for address in listening} == {"127.0.0.1"}
    port = client.scheduler_info()["services"]["dashboard"]
    for page in ("status", "health", "info/main/workers.html", "json/counts.json"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10)


def test_the_credentials_need_a_package(monkeypatch):
    def temporary():
        raise ImportError("no module named cryptography")

    monkeypatch.setattr(distributed.Security, "temporary", temporary)
    with pytest.raises(UsageError, match=r"pip install 'gsx\[pipeline\]'"):
        cluster._temporary_credentials()
