"""Verify an artifact: files against the manifest, and the graphs of a corpus against its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gsx.errors import ArtifactError, GsxError, TableError
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import Problem, verify_files
from gsx.storage.corpora.artifact_files import ANY_JSON, JsonFiles, read_arrays
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_files import CORPUS_FILES
from gsx.storage.corpora.corpus_writer import FOLDERS
from gsx.table import GraphTable
from gsx.validation import validate_table

GraphCheck = Callable[[GraphTable], Mapping[int, str]]
"""Maps rows of a table to the reason why they are wrong."""


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
    caches: tuple[str, ...] = ()
    """Files that readers of an export stored in it; they are no part of the artifact."""
    signer: str | None = None
    """Name of the key whose signature was checked."""


def corpus_files(kind: str) -> JsonFiles | None:
    """Return the types of the JSON files of a corpus; None for another kind of artifact."""
    return CORPUS_FILES if kind == "corpus" else None


def verify_artifact(
    location: Location,
    *,
    store: Store | None = None,
    manifest: Manifest | None = None,
    json_files: Callable[[str], JsonFiles | None] = corpus_files,
    graph_check: Callable[[CorpusInfo], GraphCheck | None] = lambda _info: None,
) -> VerificationReport:
    """Verify hashes of all files, read every JSON file and, for a corpus, every graph.

    An artifact of ``store`` must also be in the folder of its kind and key. ``manifest`` replaces
    the one at ``location``, for example because its signature was checked. ``json_files`` returns
    the types of the JSON files of a kind of artifact, or None if they are not known.
    ``graph_check`` returns an additional check of the graphs of a corpus, if there is one.
    """
    try:
        artifact = (store or Store(location)).peek_at(location, manifest)
        verification = verify_files(location, artifact.manifest)
    except GsxError as error:
        problem = Problem("manifest.json", str(error))
        return VerificationReport(location.url, "?", "?", 0, 0, (problem,))
    manifest, problems = artifact.manifest, verification.problems
    graphs = 0
    artifact = replace(artifact, location=verification.location)
    if not problems:
        problems = _find_unreadable(artifact, json_files(manifest.kind))
    if manifest.kind == "corpus" and not problems:
        graphs, problems = _verify_graphs(artifact, graph_check)
    if not problems and location.local is not None:
        problems = _find_changes(artifact)
        if not problems:
            mark_verified(location, manifest, verification.stamps)
    return VerificationReport(
        path=location.url,
        kind=manifest.kind,
        key=manifest.key,
        files=len(manifest.files),
        graphs=graphs,
        problems=tuple(problems),
        caches=verification.caches,
    )


def _find_changes(artifact: Artifact) -> list[Problem]:
    """Return the files that changed since they were hashed."""
    problems = []
    for path in artifact.manifest.files:
        try:
            artifact.location.open(path).close()
        except (OSError, ArtifactError):
            problems.append(Problem(path, "changed during the verification"))
    return problems


def _find_unreadable(artifact: Artifact, json_files: JsonFiles | None) -> list[Problem]:
    """Return the JSON files and files of arrays that gsx cannot read."""
    problems = []
    files = artifact.manifest.files
    for path in sorted({*files, *(json_files or ())}):
        try:
            if path not in files:
                problems.append(Problem(path, "is missing from the manifest"))
            elif path.endswith(".safetensors"):
                read_arrays(artifact.location, path)
            elif path.endswith(".json") and not path.endswith("/zarr.json"):  # read with the graphs
                (json_files or {}).get(path, ANY_JSON).read(artifact.location, path)
        except GsxError as error:
            problems.append(Problem(path, f"is not valid: {error}"))
    return problems


def _verify_graphs(
    artifact: Artifact, graph_check: Callable[[CorpusInfo], GraphCheck | None]
) -> tuple[int, list[Problem]]:
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
            counts, wrong = _check_graphs(corpus, graph_check(corpus.info))
        except GsxError as error:
            return graphs, [Problem(folder, f"holds invalid graphs: {error}")]
        graphs += sum(counts.values())
        if counts != manifest.counts:
            what = f"holds {counts} graphs; the manifest lists {manifest.counts}"
            return graphs, [Problem(folder, what)]
        if wrong:
            what = f"holds {len(wrong):,} wrong graphs, such as {wrong[0]}"
            return graphs, [Problem(folder, what)]
        corpora.append(corpus)
    if len(corpora) == 2 and not _same_graphs(*corpora):
        return graphs, [Problem("zarr", "holds different graphs than `data`")]
    return graphs, []


def _check_graphs(corpus: Corpus, check: GraphCheck | None) -> tuple[dict[str, int], list[str]]:
    """Validate every graph.

    Returns the number of graphs per split, and what is wrong with graphs that ``check`` rejects.
    """
    wrong: list[str] = []
    counts: dict[str, int] = {}
    ids = [np.zeros(0, dtype=np.int64)]
    shards = corpus.shards
    for group in corpus.groups():
        table = validate_table(corpus.read_group(group, None), corpus.info)
        shard = shards[group[0]]
        misplaced = np.flatnonzero(table.dense("graph", "split") != SPLITS.index(shard.split))
        if len(misplaced):
            what = f"a shard of `{shard.split}` holds a graph of another split"
            raise TableError(f"{table.describe(int(misplaced[0]))}: {what}")
        counts[shard.split] = counts.get(shard.split, 0) + len(table)
        ids.append(table.dense("graph", "graph_id"))
        if check is not None:
            wrong += [f"{table.describe(row)}: {reason}" for row, reason in check(table).items()]
    unique_ids, occurrences = np.unique(np.concatenate(ids), return_counts=True)
    if (occurrences > 1).any():
        duplicate = int(unique_ids[np.argmax(occurrences > 1)])
        raise TableError(f"graph_id {duplicate} belongs to more than one graph")
    return counts, wrong


def _same_graphs(left: Corpus, right: Corpus) -> bool:
    return left.shards == right.shards and all(
        _same_shard(left, right, index) for index in range(len(left.shards))
    )


def _same_shard(left: Corpus, right: Corpus, index: int) -> bool:
    """Compare one shard of two formats, one row group of ``left`` at a time."""
    table, start = right.read_shard(index), 0
    for group in left.iter_shard(index):
        stop = start + len(group)
        if not group.equals(table.slice(start, stop)):
            return False
        start = stop
    return start == len(table)
