"""Measure the catalog of a store with 1,000 artifacts: ``python bench/catalog.py``.

The store holds 200 corpora (half of them with generated graphs), 100 extractors and 700 models. The
manifests of the corpora and extractors are those of real ones with other seeds. The catalog is
written in a new process; seconds are wall time with the start of Python.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lib import harness
from lib.synthetic_models import parent_of, with_key, write_model

from gsx.storage.artifacts.digest import sha256_bytes
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    encode_manifest,
    files_digest,
)
from gsx.storage.artifacts.store import NAME_LENGTH, Artifact, Store

NAME = "catalog"
ROUNDS, FAMILIES, MODELS = 3, 100, 700
BARS = {"seconds": 60.0, "megabytes": 20.0}
"""Largest wall time and size of the site."""
GENERATE = ("--recipe", "grow", "--preset", "quick")


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    harness.require(harness.at_most(result, BARS))


def measure(folder: Path) -> harness.Result:
    """Return seconds and size of the catalog."""
    store = folder / "store"
    build_store(folder, store)
    runs = []
    for number in range(ROUNDS):
        words = ("catalog", store, "-o", folder / f"site{number}")
        seconds, document = harness.timed(lambda words=words: harness.gsx_command(*words))
        runs.append((seconds, document))
    document = runs[0][1]
    return {
        "command": harness.command_line(NAME),
        "artifacts": document["artifacts"],
        "seconds": round(statistics.median(seconds for seconds, _ in runs), 2),
        "megabytes": round(document["bytes"] / 1e6, 2),
        "pages": document["pages"],
        "rounds": ROUNDS,
        "machine": harness.machine(),
        "cpus": harness.usable_cpus(),
        "load_average": harness.load_average(),
        **harness.versions("msgspec"),
    }


def build_store(folder: Path, store: Path) -> None:
    """Build three real artifacts, then copies of them with other seeds, and models."""
    words = ("motif-size", "--num-graphs", 600, *GENERATE, "--store", folder / "real")
    harness.gsx_command("generate", *words)
    real = {artifact.manifest.stage: artifact for artifact in Store.at(folder / "real").artifacts()}
    corpora = []
    for seed in range(FAMILIES):
        source = write_copy(store, real["prepare"], seed, {})
        extractor = write_copy(store, real["extract"], seed, {"corpus": source})
        inputs = {"corpus": source, "extractor": extractor}
        corpora += [source, write_copy(store, real["generate"], seed, inputs)]
    for number in range(MODELS):
        write_model(store, corpora[number % len(corpora)], number)


def write_copy(
    store: Path, artifact: Artifact, seed: int, inputs: Mapping[str, Manifest]
) -> Manifest:
    """Write a copy of an artifact with another seed and other inputs; files are hard links."""
    manifest = artifact.manifest
    parents = tuple(
        parent if parent.role not in inputs else parent_of(parent.role, inputs[parent.role])
        for parent in manifest.parents
    )
    note = f"copy {seed}".encode()  # distinct content, as of a real build with another seed
    files = {**manifest.files, "note.txt": FileEntry(size=len(note), sha256=sha256_bytes(note))}
    changes = {"config": {**manifest.config, "seed": seed}, "parents": parents, "files": files}
    changed = with_key(manifest, {**changes, "digest": files_digest(files)})
    folder = store / changed.kind / changed.key[:NAME_LENGTH]
    for name in manifest.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(f"{artifact.location.root}/{name}", folder / name)
    (folder / "note.txt").write_bytes(note)
    (folder / MANIFEST).write_bytes(encode_manifest(changed))
    return changed


if __name__ == "__main__":
    main()
