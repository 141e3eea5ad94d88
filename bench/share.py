"""Measure handing a corpus out beside the plain operations: ``python bench/share.py``.

Export beside copying the same files, both flushed to disk; pull and push beside reading, hashing
and writing the same bytes; the report in seconds and bytes. Servers run on this machine.
With ``GSX_RAW_DATA=DIR`` the report of HIV's molecules is measured, too, in CPU time, from the
store of GSX_STORE; ``--only-molecules`` measures that alone and keeps the other figures.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import http.server
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import corpora

from gsx.stages.export import export
from gsx.stages.report import Sources, report
from gsx.storage.corpus import Corpus
from gsx.storage.disk import flush_file, remove_tree
from gsx.storage.lineage import manifests
from gsx.storage.place import Place
from gsx.storage.store import Artifact, Store
from gsx.storage.transfer import pull, push

RESULT = Path(__file__).parent / "results" / "share.json"
GRAPHS, REPEATS = 100_000, 5
BARS = {"export": 1.5, "pull": 1.3, "push": 1.3, "report_seconds": 60, "report_bytes": 5_000_000}
CHUNK = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--only-molecules", action="store_true")
    said = parser.parse_args()
    before = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    found = before if said.only_molecules else measured(said.graphs) | kept(before)
    if "GSX_RAW_DATA" in os.environ:
        found["molecules"] = molecules()
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def kept(before: dict) -> dict:
    """Return the figures of molecules where these cannot be measured."""
    return {"molecules": before["molecules"]} if "molecules" in before else {}


def molecules() -> dict[str, str | float]:
    """Measure the report of HIV, scaffolds and pictures by RDKit included."""
    words = [sys.executable, "-m", "gsx", "prepare", "hiv-size", "--json"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    store = Store.at(None)
    artifact = store.resolve(json.loads(done.stdout)["key"], kind="corpus")
    sources = Sources(corpus=Corpus(artifact), lineage=tuple(manifests(store, artifact)))
    started = time.process_time()
    page = report(sources)
    return {
        "command": "GSX_RAW_DATA=DIR python bench/share.py --only-molecules",
        "graphs": len(sources.corpus),
        "report_cpu_seconds": round(time.process_time() - started, 2),
        "report_bytes": len(page.encode()),
    }


def measured(graphs: int) -> dict:
    """Measure handing out a corpus of random trees."""
    with corpora.workplace() as folder:
        corpus = corpora.publish(folder / "store", graphs)
        size = corpus.artifact.manifest.size
        runs = {
            "export": compare(
                folder, lambda to: export_to(corpus, to), lambda to: copy(corpus, to)
            ),
            "export, beside copying with hashing": compare(
                folder, lambda to: export_to(corpus, to), lambda to: copy_hashed(corpus, to)
            ),
            "pull": compare(
                folder, lambda to: fetch(corpus, to), lambda to: copy_hashed(corpus, to)
            ),
            "pull over HTTP": over_http(folder, corpus),
            "push to S3": to_s3(folder, corpus),
        }
        started = time.perf_counter()
        page = report(Sources(corpus=corpus, lineage=(corpus.artifact.manifest,)))
        seconds = time.perf_counter() - started
    return {
        "command": "python bench/share.py",
        "graphs": graphs,
        "bytes": size,
        "times_the_plain_operation": runs,
        "report_seconds": round(seconds, 2),
        "report_bytes": len(page.encode()),
        "bars": BARS,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def compare(folder, ours, plain) -> dict[str, float]:
    """Run both in turn into new directories, and return medians and their ratio."""
    found: dict[str, list[float]] = {"gsx": [], "plain": []}
    for number in range(REPEATS):
        for name, act in (("gsx", ours), ("plain", plain)):
            target = folder / f"{name}-{number}"
            gc.collect()
            started = time.perf_counter()
            act(target)
            found[name].append(time.perf_counter() - started)
            remove_tree(target)
    ratio = statistics.median(a / b for a, b in zip(found["gsx"], found["plain"], strict=True))
    return {
        "ratio": round(ratio, 2),
        "gsx_seconds": round(statistics.median(found["gsx"]), 3),
        "plain_seconds": round(statistics.median(found["plain"]), 3),
    }


def export_to(corpus: Corpus, target: Path) -> None:
    export(corpus, [corpus.artifact.manifest], target)


def fetch(corpus: Corpus, target: Path) -> None:
    pull(corpus.artifact.place, Store.at(target))


def files(artifact: Artifact) -> list[str]:
    return list(artifact.manifest.files)


def copy(corpus: Corpus, target: Path) -> None:
    for name in files(corpus.artifact):
        write(target / name, chunks((corpus.artifact.place.local / name).open("rb")))


def copy_hashed(corpus: Corpus, target: Path) -> None:
    for name in files(corpus.artifact):
        write(target / name, hashed((corpus.artifact.place.local / name).open("rb")))


def chunks(stream):
    with stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def hashed(stream):
    digest = hashlib.sha256()
    for chunk in chunks(stream):
        digest.update(chunk)
        yield chunk
    digest.hexdigest()


def write(path: Path, parts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        for part in parts:
            stream.write(part)
    flush_file(path)


def over_http(folder: Path, corpus: Corpus) -> dict[str, float]:
    with served(folder) as url:
        root = f"{url}/{corpus.artifact.place.local.relative_to(folder).as_posix()}"

        def plain(target: Path) -> None:
            for name in files(corpus.artifact):
                write(target / name, hashed(urllib.request.urlopen(f"{root}/{name}")))

        return compare(folder, lambda to: pull(Place.at(root), Store.at(to)), plain)


@contextmanager
def served(folder: Path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def to_s3(folder: Path, corpus: Corpus) -> dict[str, float]:
    import logging

    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="AKIATESTTESTTEST",
        AWS_SECRET_ACCESS_KEY="not-a-real-secret-0123456789",
        AWS_DEFAULT_REGION="us-east-1",
    )
    boto3.client("s3").create_bucket(Bucket="bench")
    plain_fs = s3fs.S3FileSystem()

    def plain(target: Path) -> None:
        for name in files(corpus.artifact):
            data = b"".join(hashed((corpus.artifact.place.local / name).open("rb")))
            plain_fs.pipe_file(f"bench/{target.name}/{name}", data)

    def ours(target: Path) -> None:
        push(corpus.artifact, Store.at(f"s3://bench/{target.name}"))

    try:
        return compare(folder, ours, plain)
    finally:
        running.stop()


if __name__ == "__main__":
    main()
