"""`gsx report`: write an HTML quality report of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsx.errors import UsageError
from gsx.stages.report.model_results import OTHER_CORPUS, SOURCE_CORPUS, THIS_CORPUS
from gsx.stages.report.report import ReportInputs
from gsx.stages.report.report import report as render_report
from gsx.stages.stage import Progress
from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
from gsx.storage.artifacts.lineage import children, lineage_manifests
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.atomic_directory import require_file_target


def check_report_options(out: Path, *, has_model: bool, no_models: bool) -> None:
    """Raise UsageError for options that exclude each other, and a path that is no file."""
    if has_model and no_models:
        raise UsageError("--model and --no-models exclude each other; give one of them.")
    require_file_target(out)


def report_inputs(
    corpus: Artifact, store: Store, *, model: Artifact | None = None, no_models: bool = False
) -> ReportInputs:
    """Collect what a report shows: lineage, extractor and trained classifiers of a corpus."""
    lineage = lineage_manifests(store, corpus)
    models = []
    if not no_models:
        for training_corpus, digest in _training_corpora(lineage):
            trained = children(store, digest, "model")
            models += [(training_corpus, artifact) for artifact in trained]
    return ReportInputs(
        corpus=Corpus(corpus),
        lineage=tuple(lineage),
        extractor=_find_extractor(store, lineage),
        models=models,
        reference_model=None if model is None else _with_training_corpus(model, lineage),
    )


def write_report(inputs: ReportInputs, out: Path, *, seed: int, progress: Progress) -> int:
    """Write the report and return its size in bytes."""
    html = render_report(inputs, seed=seed, progress=progress).encode()
    with translate_os_errors(str(out), consequence="Nothing was written there.", option="-o FILE"):
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(out, html)
    return len(html)


def _training_corpora(lineage: Sequence[Manifest]) -> list[tuple[str, str]]:
    """Return name and digest of the corpora whose models the report lists.

    These are the corpus itself, the corpus it was exported from, and its sources.
    """
    corpora = [manifest for manifest in lineage if manifest.kind == "corpus"]
    num_same = 2 if corpora[0].stage == "export" else 1
    return [
        (THIS_CORPUS if index < num_same else SOURCE_CORPUS, manifest.digest)
        for index, manifest in enumerate(corpora)
    ]


def _with_training_corpus(model: Artifact, lineage: Sequence[Manifest]) -> tuple[str, Artifact]:
    """Return a model with the name of its training corpus in relation to the reported corpus."""
    digests = {parent.digest for parent in model.manifest.parents}
    names = [name for name, digest in _training_corpora(lineage) if digest in digests]
    return (names[0] if names else OTHER_CORPUS), model


def _find_extractor(store: Store, lineage: Sequence[Manifest]) -> Artifact | None:
    """Return the extractor of a corpus, if the store has exactly this one."""
    for manifest in lineage:
        if manifest.kind == "extractor":
            extractor = store.peek("extractor", manifest.key, manifest.digest)
            if extractor is not None and extractor.manifest.digest == manifest.digest:
                return extractor
    return None
