"""`gsx train`: train a classifier."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import RunOptions, device_option, run_options, seed_option_with_default
from gsx.cli.output import (
    artifact_json,
    command_line,
    echo,
    format_score,
    format_table,
    print_json,
)
from gsx.cli.run_plan import open_session
from gsx.cli.train_options import TrainCommand, precision_option, training_options
from gsx.pipeline.commands.option_values import RULES


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
        echo(*_format_scores(model.scores))
        if model.result is not None:
            echo(f"written: {model.result}")


def _format_scores(scores: dict[str, Any]) -> list[str]:
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    selected, chosen = scores["selected"], scores.get("chosen")
    rules = sorted(RULES, key=lambda rule: rule != selected)
    rows = [
        (
            _format_choice(chosen)
            if chosen
            else RULES[rule] + (" (selected)" if rule == selected else ""),
            row.get("epoch"),
            *(format_score(row.get(split)) for split in splits),
        )
        for rule in rules
        if (row := scores["selection"].get(rule)) is not None
    ]
    headers = (f"{scores['metric'].upper()} AT", "EPOCH", *(split.upper() for split in splits))
    return format_table(rows, headers)


def _format_choice(chosen: dict[str, Any]) -> str:
    """Return the hyper-parameters of a linear model."""
    return f"linear model, {chosen['counts']}, strength {chosen['strength']:g}"
