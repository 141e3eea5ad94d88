"""`gsx report`: write an HTML quality report of a corpus."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_bytes, print_json, progress_bar


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
    from gsx.pipeline.commands.report import check_report_options, report_inputs, write_report
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus
    from gsx.storage.artifacts.store import Store

    started = time.perf_counter()
    check_report_options(out, has_model=model is not None, no_models=no_models)
    artifact_store = Store.at(store)
    artifact = resolve_corpus(artifact_store, corpus)
    inputs = report_inputs(
        artifact,
        artifact_store,
        model=None if model is None else artifact_store.resolve(model, kind="model"),
        no_models=no_models,
    )
    with progress_bar("report", quiet=as_json) as progress:
        num_bytes = write_report(inputs, out, seed=seed, progress=progress)
    seconds = round(time.perf_counter() - started, 3)
    if as_json:
        print_json({"path": str(out), "bytes": num_bytes, "key": artifact.key, "seconds": seconds})
        return
    size = format_bytes(num_bytes)
    echo(
        f"report    {artifact.key[:12]}  {size:<16} built in {seconds:.1f} s",
        f"          {out}",
    )
