"""Write a corpus for people who do not have gsx: a directory that explains and verifies itself."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, cast

from gsx.errors import UsageError
from gsx.stages.export.request import Given, LabelMode
from gsx.storage.artifacts.manifest import RUN_RECORD, Dropped, Manifest, Parent
from gsx.storage.artifacts.publish import Identity, StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.bundle import Bundle, build_bundle

Layout = Literal["portable", "pyg", "good", "ogb", "dgl", "csv", "smi", "sdf"]
HARDENED = ("good", "ogb", "dgl")
"""Layouts whose readers expect hard labels, unless `soft` is asked for."""
VERSION = 1


def export(
    corpus: Corpus,
    lineage: Sequence[Manifest],
    target: Path,
    layout: Layout = "portable",
    *,
    creator: str = "",
    url: str = "",
    labels: LabelMode = "same-class",
) -> tuple[Artifact, bool]:
    """Write ``corpus`` to the directory ``target`` and say whether it was there before.

    ``lineage`` are the manifests of the corpus and of what it was made from.
    """
    given = Given(
        corpus=corpus,
        lineage=tuple(lineage),
        date=today(),
        creator=creator,
        url=url,
        labels=labels,
    )

    def fill(bundle: Bundle) -> StageResult:
        _fill(layout)(bundle, given)
        return _outcome(given, layout)

    return build_bundle(target, _identity(given, layout), fill, run=_run_record(corpus.artifact))


def _outcome(given: Given, layout: Layout) -> StageResult:
    """Return what the manifest says: all that the corpus says, and what a layout left out."""
    source = given.corpus.artifact.manifest
    counts, dropped = dict(source.counts), source.dropped
    if layout in HARDENED and given.corpus.info.level == "node":
        from gsx.stages.export.node_arrays import soft_nodes

        soft_count = soft_nodes(given)
        if soft_count:
            reason = (
                "soft labels of nodes, now in no split (`--labels argmax` or `soft` keeps them)"
            )
            dropped = (*dropped, Dropped(reason=reason, count=soft_count))
    elif layout in HARDENED and given.labels == "same-class":
        from gsx.stages.export.hard_labels import soft_labels

        soft = soft_labels(given)
        counts = {split: count - soft.get(split, 0) for split, count in counts.items()}
        if any(soft.values()):
            reason = "soft labels (`--labels argmax` or `soft` keeps such graphs)"
            dropped = (*dropped, Dropped(reason=reason, count=sum(soft.values())))
    if layout in ("smi", "sdf"):
        from gsx.stages.export.formats.molecules import without_smiles

        none = without_smiles(given)
        counts = {split: count - none.get(split, 0) for split, count in counts.items()}
        if any(none.values()):
            dropped = (*dropped, Dropped(reason="no molecules", count=sum(none.values())))
    return StageResult(counts=counts, dropped=dropped, warnings=source.warnings, summary=source.summary)


def _fill(layout: Layout) -> Callable[[Bundle, Given], None]:
    """Return what writes a layout; only that is imported, for some need torch or RDKit."""
    from importlib import import_module

    module = {"smi": "molecules", "sdf": "molecules"}.get(layout, layout)
    name = {"smi": "fill_smiles", "sdf": "fill_structures"}.get(layout, "fill")
    found = getattr(import_module(f"gsx.stages.export.formats.{module}"), name)
    return cast("Callable[[Bundle, Given], None]", found)


def today() -> str:
    """Return the day of the export, or that of ``SOURCE_DATE_EPOCH``, so that bytes can repeat."""
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    if moment is None:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    if not moment.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970; got `{moment}`")
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).date().isoformat()


def _identity(given: Given, layout: Layout) -> Identity:
    source = given.corpus.artifact.manifest
    parent = Parent(role="corpus", kind="corpus", key=source.key, digest=source.digest)
    said = {name: value for name in ("creator", "url") if (value := getattr(given, name))}
    if layout in HARDENED:
        said["labels"] = given.labels
    return Identity(
        kind="corpus" if layout == "portable" else "export",
        stage="export",
        stage_version=VERSION,
        config={"layout": layout, "date": given.date, **said},
        parents=(parent,),
        seeds=source.seeds,
    )


def _run_record(artifact: Artifact) -> bytes | None:
    """Return how the corpus was made: versions, platform, time; None where that is not known."""
    try:
        return artifact.location.read_bytes(RUN_RECORD, limit=1 << 20)
    except OSError:
        return None
