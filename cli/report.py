"""`gsx report`: write an HTML quality report of a corpus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_bytes, print_json, progress_bar
from gsx.cli.resolve_corpus import resolve_corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.store import Artifact, Store


@click.command(short_help="Write an HTML quality report of a corpus.")
@click.argument("corpus")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="HTML file to write.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the sample of graphs."
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Classifier for the agreement check.  [default: the best one trained on source graphs]",
)
@click.option("--no-models", is_flag=True, help="Leave trained classifiers out.")
@store_option
@json_option
def report(
    corpus: str,
    *,
    out: Path,
    seed: int,
    model: str | None,
    no_models: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Write a self-contained HTML report of CORPUS.

    The report shows the content and lineage of the corpus, its coverage beyond the training
    distribution, validity checks of generated graphs, drawings of graphs, and the scores of
    classifiers in the store. One classifier is compared with the labels of generated graphs, and
    its embedding of the graphs is plotted: --model, or the best one on OOD validation that was
    trained on source graphs only.
    """
    from gsx.errors import UsageError
    from gsx.stages.report.report import ReportInputs
    from gsx.stages.report.report import report as render_report
    from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
    from gsx.storage.artifacts.lineage import children, lineage_manifests
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.sharing.atomic_directory import require_file_target

    started = time.perf_counter()
    if model is not None and no_models:
        raise UsageError("--model and --no-models exclude each other; give one of them.")
    require_file_target(out)
    artifact_store = Store.at(store)
    artifact = resolve_corpus(artifact_store, corpus)
    lineage = lineage_manifests(artifact_store, artifact)
    reference_model = None
    if model is not None:
        reference_model = _with_training_corpus(
            artifact_store.resolve(model, kind="model"), lineage
        )
    models = []
    if not no_models:
        for training_corpus, digest in _training_corpora(lineage):
            trained = children(artifact_store, digest, "model")
            models += [(training_corpus, artifact) for artifact in trained]
    inputs = ReportInputs(
        corpus=Corpus(artifact),
        lineage=tuple(lineage),
        extractor=_find_extractor(artifact_store, lineage),
        models=models,
        reference_model=reference_model,
    )
    with progress_bar("report", quiet=as_json) as progress:
        html = render_report(inputs, seed=seed, progress=progress).encode()
    with translate_os_errors(str(out), consequence="Nothing was written there.", option="-o FILE"):
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(out, html)
    seconds = round(time.perf_counter() - started, 3)
    if as_json:
        print_json({"path": str(out), "bytes": len(html), "key": artifact.key, "seconds": seconds})
        return
    size = format_bytes(len(html))
    echo(
        f"report    {artifact.key[:12]}  {size:<16} built in {seconds:.1f} s",
        f"          {out}",
    )


def _training_corpora(lineage: Sequence[Manifest]) -> list[tuple[str, str]]:
    """Return name and digest of the corpora whose models the report lists.

    These are the corpus itself, the corpus it was exported from, and its sources.
    """
    from gsx.stages.report.model_results import SOURCE_CORPUS, THIS_CORPUS

    corpora = [manifest for manifest in lineage if manifest.kind == "corpus"]
    num_same = 2 if corpora[0].stage == "export" else 1
    return [
        (THIS_CORPUS if index < num_same else SOURCE_CORPUS, manifest.digest)
        for index, manifest in enumerate(corpora)
    ]


def _with_training_corpus(model: Artifact, lineage: Sequence[Manifest]) -> tuple[str, Artifact]:
    """Return a model with the name of its training corpus in relation to the reported corpus."""
    from gsx.stages.report.model_results import OTHER_CORPUS

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
