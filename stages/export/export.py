"""Export a corpus to a directory that other tools read and that verifies itself."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gsx.errors import UsageError
from gsx.stages.export.formats import ExportFormat, format_named
from gsx.stages.export.request import ExportRequest, LabelMode
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.manifest import Dropped, Manifest, Parent
from gsx.storage.artifacts.origin import read_origin
from gsx.storage.artifacts.publish import Identity, StageResult
from gsx.storage.artifacts.sidecars import read_run_record
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_files import check_corpus_files
from gsx.storage.sharing.bundle import Bundle, build_bundle


def export(
    corpus: Corpus,
    lineage: Sequence[Manifest],
    target: Path,
    format_name: str = "portable",
    *,
    creator: str = "",
    url: str = "",
    labels: LabelMode = "same-class",
) -> tuple[Artifact, bool]:
    """Export ``corpus`` to the directory ``target``.

    ``lineage`` holds the manifests of the corpus and of its ancestors. Return the exported artifact
    and whether it existed before.
    """
    export_format = format_named(format_name)
    check_corpus_files(corpus.artifact)
    request = ExportRequest(
        corpus=corpus,
        lineage=tuple(lineage),
        date=today(),
        creator=creator,
        url=url,
        labels=labels,
        origin=_origin(corpus.artifact),
    )

    def write(bundle: Bundle) -> StageResult:
        export_format.write(bundle, request)
        return _result(request, export_format)

    identity = _identity(request, export_format)
    return build_bundle(target, identity, write, run=_run_record(corpus.artifact))


def _result(request: ExportRequest, export_format: ExportFormat) -> StageResult:
    """Return the result of the source corpus, minus the graphs that the format drops."""
    source = request.corpus.artifact.manifest
    counts, dropped = dict(source.counts), source.dropped
    warnings = (*source.warnings, *_conversion(request, export_format))
    if export_format.hard_labels and request.corpus.info.level == "node":
        from gsx.stages.export.node_arrays import count_soft_nodes

        num_soft = count_soft_nodes(request)
        if num_soft:
            reason = (
                "nodes with soft labels, now in no split (`--labels argmax` or `soft` keeps them)"
            )
            dropped = (*dropped, Dropped(reason=reason, count=num_soft))
    elif export_format.hard_labels and request.labels == "same-class":
        from gsx.stages.export.hard_labels import count_soft_labels

        soft = count_soft_labels(request)
        counts = {split: count - soft.get(split, 0) for split, count in counts.items()}
        if any(soft.values()):
            reason = "graphs with soft labels (`--labels argmax` or `soft` keeps them)"
            dropped = (*dropped, Dropped(reason=reason, count=sum(soft.values())))
    if export_format.molecules:
        from gsx.stages.export.formats.molecules import count_without_smiles

        missing = count_without_smiles(request, hard_labels=export_format.hard_labels)
        counts = {split: count - missing.get(split, 0) for split, count in counts.items()}
        if any(missing.values()):
            dropped = (
                *dropped,
                Dropped(reason="graphs without SMILES", count=sum(missing.values())),
            )
    return StageResult(counts=counts, dropped=dropped, warnings=warnings, summary=source.summary)


def _conversion(request: ExportRequest, export_format: ExportFormat) -> Iterator[str]:
    """Yield what a format with hard labels has made of soft labels that it keeps."""
    if not export_format.hard_labels or request.labels == "same-class":
        return
    from gsx.stages.export.hard_labels import count_soft_labels
    from gsx.stages.export.node_arrays import count_soft_nodes

    nodes = request.corpus.info.level == "node"
    if nodes:
        soft = count_soft_nodes(replace(request, labels="same-class"))
    else:
        soft = sum(count_soft_labels(request).values())
    if soft:
        items = "nodes" if nodes else "graphs"
        done = "are kept" if request.labels == "soft" else "became their most likely class"
        yield f"soft labels of {soft:,} {items} {done} (`--labels {request.labels}`)"


def today() -> str:
    """Return the current date, or the date of ``SOURCE_DATE_EPOCH`` for reproducible exports."""
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    if moment is None:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    if not moment.isdecimal():
        raise UsageError(
            f"SOURCE_DATE_EPOCH: `{moment}` is not a number of seconds since 1970. Set it to a "
            "whole number, or unset it."
        )
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).date().isoformat()


def _identity(request: ExportRequest, export_format: ExportFormat) -> Identity:
    source = request.corpus.artifact.manifest
    parent = Parent(role="corpus", kind="corpus", key=source.key, digest=source.digest)
    options = {
        name: value for name in ("creator", "url", "origin") if (value := getattr(request, name))
    }
    if export_format.hard_labels:
        options["labels"] = request.labels
    return Identity(
        kind="corpus" if export_format.name == "portable" else "export",
        stage="export",
        stage_version=export_format.version,
        config={"layout": export_format.name, "date": request.date, **options},
        parents=(parent,),
        seeds=source.seeds,
    )


def _origin(artifact: Artifact) -> str:
    origin = read_origin(artifact.location)
    return "" if origin is None else origin.describe(public=True)


def _run_record(artifact: Artifact) -> bytes | None:
    """Return the run record of the source corpus (versions, platform, time), or None."""
    record = read_run_record(artifact.location)
    return None if record is None else readable_json(record)
