"""Audit an artifact: files against the manifest, and the graphs of a corpus against the rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.errors import GsxError, TableError
from gsx.schema import SPLITS
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import trust
from gsx.storage.artifacts.verify_files import Problem, find_problems
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import FOLDERS
from gsx.validation import check_content


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of checking one artifact."""

    path: str
    kind: str
    key: str
    files: int
    graphs: int
    """Graphs that were read and checked."""
    problems: tuple[Problem, ...]


def audit(place: Place, *, store: Store | None = None) -> Audit:
    """Check everything that can be checked about the artifact at ``place``.

    An artifact of ``store`` must also lie under its own name there.
    """
    try:
        artifact = (store or Store(place)).peek_at(place)
        problems = find_problems(place, artifact.manifest)
    except GsxError as error:
        return Audit(place.url, "?", "?", 0, 0, (Problem("manifest.json", str(error)),))
    manifest = artifact.manifest
    graphs = 0
    if manifest.kind == "corpus" and not problems:
        graphs, problems = _audit_graphs(artifact)
    if not problems and place.local is not None:
        trust(place.local, manifest)
    return Audit(
        place.url, manifest.kind, manifest.key, len(manifest.files), graphs, tuple(problems)
    )


def _audit_graphs(artifact: Artifact) -> tuple[int, list[Problem]]:
    """Return how many graphs were read, and what is wrong with them."""
    manifest = artifact.manifest
    held = {path.split("/")[0] for path, entry in manifest.files.items() if entry.rows is not None}
    forms = [form for form, folder in FOLDERS.items() if folder in held]
    if not forms:
        return 0, [Problem("data", "holds no shards, and so does `zarr`")]
    graphs = 0
    corpora = []
    for form in forms:
        try:
            corpus = Corpus(artifact, format=form)
            counts = _check_graphs(corpus)
        except GsxError as error:
            return graphs, [Problem(FOLDERS[form], f"holds graphs that break the rules: {error}")]
        graphs += sum(counts.values())
        if counts != manifest.counts:
            what = f"holds {counts} graphs; the manifest says {manifest.counts}"
            return graphs, [Problem(FOLDERS[form], what)]
        corpora.append(corpus)
    if len(corpora) == 2 and not _same_graphs(*corpora):
        return graphs, [Problem("zarr", "holds other graphs than `data`")]
    return graphs, []


def _check_graphs(corpus: Corpus) -> dict[str, int]:
    """Check every graph against the rules and return how many each split has."""
    counts: dict[str, int] = {}
    ids = [np.zeros(0, dtype=np.int64)]
    shards = corpus.shards
    for part in corpus.groups():
        table = check_content(corpus.read_group(part, None), corpus.info)
        shard = shards[part[0]]
        if shard.split not in SPLITS:
            raise TableError(f"`{shard.split}` is not the name of a split")
        strangers = np.flatnonzero(table.dense("graph", "split") != SPLITS.index(shard.split))
        if len(strangers):
            what = f"a shard of `{shard.split}` holds a graph of another split"
            raise TableError(f"{table.describe(int(strangers[0]))}: {what}")
        counts[shard.split] = counts.get(shard.split, 0) + len(table)
        ids.append(table.dense("graph", "graph_id"))
    known, times = np.unique(np.concatenate(ids), return_counts=True)
    if (times > 1).any():
        number = int(known[np.argmax(times > 1)])
        raise TableError(f"graph_id {number} stands for more than one graph")
    return counts


def _same_graphs(left: Corpus, right: Corpus) -> bool:
    return left.shards == right.shards and all(
        left.read_shard(number).equals(right.read_shard(number))
        for number in range(len(left.shards))
    )
