"""Audit an artifact: files against the manifest, and the graphs of a corpus against the rules."""

from __future__ import annotations

from dataclasses import dataclass

from gsx.content import check_content
from gsx.errors import GsxError
from gsx.storage.corpus import Corpus
from gsx.storage.corpus_writer import Format
from gsx.storage.place import Place
from gsx.storage.store import Artifact
from gsx.storage.trust import trust
from gsx.storage.verify import Problem, find_problems, read_manifest


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


def audit(place: Place) -> Audit:
    """Check everything that can be checked about the artifact at ``place``."""
    try:
        manifest = read_manifest(place)
    except GsxError as error:
        return Audit(place.url, "?", "?", 0, 0, (Problem("manifest.json", str(error)),))
    problems = find_problems(place, manifest)
    graphs = 0
    if manifest.kind == "corpus" and not problems:
        graphs, problems = _audit_graphs(Artifact(place, manifest))
    if not problems and place.local is not None:
        trust(place.local, manifest)
    return Audit(
        place.url, manifest.kind, manifest.key, len(manifest.files), graphs, tuple(problems)
    )


def _audit_graphs(artifact: Artifact) -> tuple[int, list[Problem]]:
    graphs = 0
    forms: tuple[Format, ...] = ("parquet", "zarr")
    stored = {path.split("/")[0] for path in artifact.manifest.files}
    for form, folder in zip(forms, ("data", "zarr"), strict=True):
        if folder not in stored:
            continue
        counts: dict[str, int] = {}
        try:
            corpus = Corpus(artifact, format=form)
            for split in corpus.splits:
                for part in corpus.iter_tables(split=split):
                    check_content(part, corpus.info)
                    counts[split] = counts.get(split, 0) + len(part)
        except GsxError as error:
            return graphs, [Problem(folder, f"holds graphs that break the rules: {error}")]
        graphs += sum(counts.values())
        if counts != dict(artifact.manifest.counts):
            what = f"holds {counts} graphs; the manifest says {artifact.manifest.counts}"
            return graphs, [Problem(folder, what)]
    return graphs, []
