"""`gsx train`: train a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gsx.cli.format_scores import format_scores
from gsx.cli.options import RunOptions, device_option, run_options, seed_option_with_default
from gsx.cli.output import (
    artifact_json,
    command_line,
    echo,
    print_json,
)
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage
from gsx.cli.train_options import TrainCommand, precision_option, training_options


@click.command(cls=TrainCommand, short_help="Train a classifier on a corpus.")
@click.argument("corpus")
@training_options
@click.option("--source-only", is_flag=True, help="Baseline: train without augmented graphs.")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    help="Train on graphs of this origin only; repeatable.",
)
@seed_option_with_default
@precision_option
@device_option
@click.option(
    "--evaluate",
    type=click.Choice(["all", "validation"]),
    help="Splits to score; `validation` neither reads nor scores test splits.  [default: all]",
)
@click.option(
    "--seal",
    is_flag=True,
    help="Store predictions for test splits instead of scores; `gsx unseal` scores them.",
)
@click.option("--results", metavar="DIR", type=click.Path(), help="Also write a result file here.")
@click.option("--method", metavar="NAME", help="Name of the method in the result file.")
@run_options
def train(
    corpus: str,
    preset: str,
    results: str | None,
    method: str | None,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Train a classifier on CORPUS and score it on every held-out split.

    Prints the scores of the epoch that `--select` reports, then those of the other rules.
    An interrupted run resumes after its last finished epoch.
    """
    from gsx.errors import UsageError
    from gsx.stages.train.presets import options_for
    from gsx.stages.train.result_file import scores_of, write_result
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.portable_copies import identity

    if (results is None) != (method is None):
        raise UsageError("--results DIR and --method NAME belong together; give both or neither")
    if options["steps"] is not None and options["epochs"] is not None:
        raise UsageError("--steps and --epochs exclude each other; give one of them")
    if options.pop("seal"):
        if options["evaluate"] is not None:
            raise UsageError("--seal stores test predictions without scores. Remove --evaluate.")
        options["evaluate"] = "sealed"
    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    corpus_stage = identity(artifact).stage
    source = corpus_stage if corpus_stage in ("generate", "augment") else "prepare"
    stage_options = options_for(preset, options, Corpus(artifact).info)
    built = run_single_stage(
        "train",
        {**stage_options, "source": source},
        {source: artifact},
        run_options,
        print_result=False,
    )
    if built is None:
        return
    scores = scores_of(built)
    document = {**artifact_json(built), **scores}
    if results is not None and method is not None:
        path = write_result(Path(results), method, preset, built, command_line())
        document["result"] = str(path)
    if run_options.as_json:
        print_json(document)
    elif not run_options.quiet:
        echo(*format_scores(scores))
        if "result" in document:
            echo(f"written: {document['result']}")
