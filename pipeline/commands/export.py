"""`gsx export`: write a corpus in a layout that other tools read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import FORMATS, Options
from gsx.pipeline.commands.session import Session, StepResult
from gsx.stages.export.export import export as export_corpus
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.manifest import Dropped, Manifest
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A directory that a corpus was written to."""

    path: Path
    artifact: Artifact
    """The directory as an artifact."""
    manifest: Manifest
    """The manifest of the corpus that it holds."""
    reused: bool
    seconds: float
    left_out: list[Dropped]
    """Graphs that the layout cannot hold."""

    def notes(self, source: Artifact) -> list[str]:
        """Return what the export left out or converted."""
        notes = [f"export: left out: {drop.count:,} {drop.reason}" for drop in self.left_out]
        return notes + [
            f"export: {text}"
            for text in self.artifact.manifest.warnings
            if text not in source.manifest.warnings
        ]


def convert(
    corpus: Artifact, file_format: str, session: Session, out: str | Path | None
) -> StepResult | None:
    """Write the shards of a corpus in another file format into the store, and to ``out``."""
    config = {"formats": FORMATS[file_format]}
    return session.run_stage("convert", config, {"prepare": corpus}, out)


def export(corpus: Artifact, target: Path, options: Options, session: Session) -> Exported | None:
    """Write a corpus to a new or empty directory; return None for a dry run."""
    if session.tag is not None:
        raise UsageError(
            "--tag applies to artifacts of the store. Use it with another file format."
        )
    if session.is_dry_run:
        return None
    started = time.perf_counter()
    lineage = lineage_manifests(session.store, corpus)
    exported, reused = export_corpus(Corpus(corpus), lineage, target, **options)
    seconds = time.perf_counter() - started
    dropped = corpus.manifest.dropped
    return Exported(
        path=target,
        artifact=exported,
        manifest=identity(exported),
        reused=reused,
        seconds=seconds,
        left_out=[drop for drop in exported.manifest.dropped if drop not in dropped],
    )
