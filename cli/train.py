"""`gsx train`: train a classifier."""

from __future__ import annotations

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
from gsx.cli.run_plan import open_session
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
@click.option(
    "--log",
    multiple=True,
    metavar="KIND:TARGET",
    help="Show curves while training: tensorboard:DIR, csv:FILE, or a kind of an installed "
    "package; repeatable.",
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
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus
    from gsx.pipeline.commands.train import ResultFile
    from gsx.pipeline.commands.train import train as train_model

    result_file = ResultFile.of(results, method, command_line())
    session = open_session(run_options)
    model = train_model(
        resolve_corpus(session.store, corpus),
        options,
        session,
        preset=preset,
        result_file=result_file,
    )
    if model is None:
        return
    if run_options.as_json:
        written = {} if model.result is None else {"result": str(model.result)}
        print_json({**artifact_json(model.step.built), **model.scores, **written})
    elif not run_options.quiet:
        echo(*format_scores(model.scores))
        if model.result is not None:
            echo(f"written: {model.result}")
