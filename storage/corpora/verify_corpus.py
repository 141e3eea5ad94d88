"""Verify an artifact: files against the manifest, and the graphs of a corpus against its schema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.errors import GsxError, TableError
from gsx.schema import SPLITS
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import Problem, find_file_problems
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import FOLDERS
from gsx.validation import validate_table


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Result of verifying one artifact."""

    path: str
    kind: str
    key: str
    files: int
    graphs: int
    """Graphs that were read and validated."""
    problems: tuple[Problem, ...]


def verify_artifact(location: Location, *, store: Store | None = None) -> VerificationReport:
    """Verify hashes of all files and, for a corpus, every graph.

    An artifact of ``store`` must also be in the folder of its kind and key.
    """
    try:
        artifact = (store or Store(location)).peek_at(location)
        problems = find_file_problems(location, artifact.manifest)
    except GsxError as error:
        problem = Problem("manifest.json", str(error))
        return VerificationReport(location.url, "?", "?", 0, 0, (problem,))
    manifest = artifact.manifest
    graphs = 0
    if manifest.kind == "corpus" and not problems:
        graphs, problems = _verify_graphs(artifact)
    if not problems and location.local is not None:
        mark_verified(location.local, manifest)
    return VerificationReport(
        location.url, manifest.kind, manifest.key, len(manifest.files), graphs, tuple(problems)
    )


def _verify_graphs(artifact: Artifact) -> tuple[int, list[Problem]]:
    """Return the number of graphs read, and their problems."""
    manifest = artifact.manifest
    folders = {
        path.split("/")[0] for path, entry in manifest.files.items() if entry.rows is not None
    }
    formats = [file_format for file_format, folder in FOLDERS.items() if folder in folders]
    if not formats:
        return 0, [Problem("data", "has no shards, and neither has `zarr`")]
    graphs = 0
    corpora = []
    for file_format in formats:
        folder = FOLDERS[file_format]
        try:
            corpus = Corpus(artifact, format=file_format)
            counts = _check_graphs(corpus)
        except GsxError as error:
            return graphs, [Problem(folder, f"holds invalid graphs: {error}")]
        graphs += sum(counts.values())
        if counts != manifest.counts:
            what = f"holds {counts} graphs; the manifest lists {manifest.counts}"
            return graphs, [Problem(folder, what)]
        corpora.append(corpus)
    if len(corpora) == 2 and not _same_graphs(*corpora):
        return graphs, [Problem("zarr", "holds different graphs than `data`")]
    return graphs, []


def _check_graphs(corpus: Corpus) -> dict[str, int]:
    """Validate every graph and return the number of graphs per split."""
    counts: dict[str, int] = {}
    ids = [np.zeros(0, dtype=np.int64)]
    shards = corpus.shards
    for group in corpus.groups():
        table = validate_table(corpus.read_group(group, None), corpus.info)
        shard = shards[group[0]]
        if shard.split not in SPLITS:
            raise TableError(f"`{shard.split}` is not the name of a split")
        misplaced = np.flatnonzero(table.dense("graph", "split") != SPLITS.index(shard.split))
        if len(misplaced):
            what = f"a shard of `{shard.split}` holds a graph of another split"
            raise TableError(f"{table.describe(int(misplaced[0]))}: {what}")
        counts[shard.split] = counts.get(shard.split, 0) + len(table)
        ids.append(table.dense("graph", "graph_id"))
    unique_ids, occurrences = np.unique(np.concatenate(ids), return_counts=True)
    if (occurrences > 1).any():
        duplicate = int(unique_ids[np.argmax(occurrences > 1)])
        raise TableError(f"graph_id {duplicate} belongs to more than one graph")
    return counts


def _same_graphs(left: Corpus, right: Corpus) -> bool:
    return left.shards == right.shards and all(
        left.read_shard(index).equals(right.read_shard(index)) for index in range(len(left.shards))
    )
