"""Measure export, pull, push and reports of a corpus: ``python bench/share.py``.

Export is compared with copying the same files, both flushed to disk. Pull and push are compared
with reading, hashing and writing the same bytes, one file after the other. Servers run on this
machine. The report of a corpus is measured in seconds and bytes.

``GSX_RAW_DATA=DIR python bench/share.py --only-molecules`` measures the CPU time of the report of
HIV, prepared in the store of GSX_STORE. Either command keeps the figures of the other one.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import http.server
import logging
import os
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lib import corpora, harness

from gsx.stages.export.export import export
from gsx.stages.report.report import ReportInputs, report
from gsx.storage.artifacts.atomic_files import fsync_file, remove_tree
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.push_pull import pull, push

NAME = "share"
GRAPHS, ROUNDS = 100_000, 5
BARS = {"export": 1.5, "pull": 1.3, "push": 1.3, "report_seconds": 60, "report_bytes": 5_000_000}
CHUNK = 1 << 20

Transfer = Callable[[Path], None]
"""Copies a corpus to a directory."""


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--only-molecules", action="store_true", help="the report of HIV alone")
    options = parser.parse_args(arguments)
    before = harness.read_result(NAME)
    if options.only_molecules:
        result = {**before, "molecules": measure_molecules()}
    else:
        result = measure(options.graphs)
        if "molecules" in before:
            result["molecules"] = before["molecules"]
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    if not options.only_molecules:
        check(result)


def measure_molecules() -> harness.Result:
    """Measure the report of HIV, scaffolds and pictures by RDKit included."""
    harness.raw_data()
    key = harness.gsx_command("prepare", "hiv-size")["key"]
    store = Store.at(None)
    artifact = store.resolve(key, kind="corpus")
    lineage = tuple(lineage_manifests(store, artifact))
    inputs = ReportInputs(corpus=Corpus(artifact), lineage=lineage)
    seconds, page = harness.timed(lambda: report(inputs), time.process_time)
    return {
        "command": harness.command_line(NAME, "--only-molecules", raw_data=True),
        "graphs": len(inputs.corpus),
        "report_cpu_seconds": round(seconds, 2),
        "report_bytes": len(page.encode()),
    }


def measure(graphs: int) -> harness.Result:
    """Measure export, pull, push and the report of a corpus of random trees."""
    with corpora.temporary_directory() as folder:
        corpus = corpora.publish(folder / "store", graphs)
        ratios = {
            "export": compare(
                folder,
                lambda target: gsx_export(corpus, target),
                lambda target: copy(corpus, target),
            ),
            "export, beside copying with hashing": compare(
                folder,
                lambda target: gsx_export(corpus, target),
                lambda target: copy_and_hash(corpus, target),
            ),
            "pull": compare(
                folder,
                lambda target: gsx_pull(corpus.artifact.location, target),
                lambda target: copy_and_hash(corpus, target),
            ),
            "pull over HTTP": compare_http(folder, corpus),
            "push to S3": compare_s3(folder, corpus),
        }
        seconds, page = harness.timed(
            lambda: report(ReportInputs(corpus=corpus, lineage=(corpus.artifact.manifest,)))
        )
        return {
            "command": harness.command_line(NAME),
            "graphs": graphs,
            "bytes": corpus.artifact.manifest.size,
            "times_the_plain_operation": ratios,
            "report_seconds": round(seconds, 2),
            "report_bytes": len(page.encode()),
            "bars": BARS,
            **harness.versions(),
            "cores": os.cpu_count(),
        }


def check(result: harness.Result) -> None:
    ratios = {name: run["ratio"] for name, run in result["times_the_plain_operation"].items()}
    figures = {
        "export": ratios["export"],
        "pull": max(ratios["pull"], ratios["pull over HTTP"]),
        "push": ratios["push to S3"],
        "report_seconds": result["report_seconds"],
        "report_bytes": result["report_bytes"],
    }
    harness.require(harness.at_most(figures, BARS))


def compare(folder: Path, gsx: Transfer, plain: Transfer) -> dict[str, float]:
    """Run both in turn into new directories; return medians and the median of the ratios."""
    seconds: dict[str, list[float]] = {"gsx": [], "plain": []}
    for number in range(ROUNDS):
        for name, transfer in (("gsx", gsx), ("plain", plain)):
            target = folder / f"{name}-{number}"
            gc.collect()
            seconds[name].append(harness.timed(functools.partial(transfer, target))[0])
            remove_tree(target)
    ratio = statistics.median(a / b for a, b in zip(seconds["gsx"], seconds["plain"], strict=True))
    return {
        "ratio": round(ratio, 2),
        "gsx_seconds": round(statistics.median(seconds["gsx"]), 3),
        "plain_seconds": round(statistics.median(seconds["plain"]), 3),
    }


def gsx_export(corpus: Corpus, target: Path) -> None:
    export(corpus, [corpus.artifact.manifest], target)


def gsx_pull(source: Location, target: Path) -> None:
    pull(source, Store.at(target))


def directory(corpus: Corpus) -> Path:
    """Return the directory of a corpus."""
    return Path(corpus.artifact.location.root)


def local_files(corpus: Corpus) -> dict[str, Path]:
    """Return the files of a corpus by their names in the manifest."""
    return {name: directory(corpus) / name for name in corpus.artifact.manifest.files}


def copy(corpus: Corpus, target: Path) -> None:
    for name, path in local_files(corpus).items():
        write(target / name, chunks(path.open("rb")))


def copy_and_hash(corpus: Corpus, target: Path) -> None:
    for name, path in local_files(corpus).items():
        write(target / name, hashed_chunks(path.open("rb")))


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a stream and close it."""
    with stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def hashed_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a stream and compute their SHA-256."""
    digest = hashlib.sha256()
    for chunk in chunks(stream):
        digest.update(chunk)
        yield chunk
    digest.hexdigest()


def write(path: Path, content: Iterable[bytes]) -> None:
    """Write a file and flush it to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        for chunk in content:
            stream.write(chunk)
    fsync_file(path)


def compare_http(folder: Path, corpus: Corpus) -> dict[str, float]:
    """Compare a pull over HTTP with downloads by ``urllib``."""
    with http_server(folder) as url:
        root = f"{url}/{directory(corpus).relative_to(folder).as_posix()}"

        def plain(target: Path) -> None:
            for name in corpus.artifact.manifest.files:
                write(target / name, hashed_chunks(urllib.request.urlopen(f"{root}/{name}")))

        return compare(folder, lambda target: gsx_pull(Location.at(root), target), plain)


@contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """Serve a directory from a thread of this process and yield its URL."""

    class QuietHandler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def compare_s3(folder: Path, corpus: Corpus) -> dict[str, float]:
    """Compare a push to a simulated S3 with uploads by ``s3fs``."""
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="AKIATESTTESTTEST",
        AWS_SECRET_ACCESS_KEY="not-a-real-secret-0123456789",
        AWS_DEFAULT_REGION="us-east-1",
    )
    boto3.client("s3").create_bucket(Bucket="bench")
    filesystem = s3fs.S3FileSystem()

    def plain(target: Path) -> None:
        for name, path in local_files(corpus).items():
            data = b"".join(hashed_chunks(path.open("rb")))
            filesystem.pipe_file(f"bench/{target.name}/{name}", data)

    def gsx(target: Path) -> None:
        push(corpus.artifact, Store.at(f"s3://bench/{target.name}"))

    try:
        return compare(folder, gsx, plain)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
