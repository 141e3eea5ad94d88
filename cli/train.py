"""`gsx train`: train a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import RunOptions, device_option, run_options, seed_option_with_default
from gsx.cli.output import (
    SELECTION_RULES,
    artifact_json,
    command_line,
    echo,
    format_score,
    format_table,
    print_json,
)
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage
from gsx.cli.train_options import TrainCommand, precision_option, training_options

if TYPE_CHECKING:
    from gsx.storage.artifacts.publish import BuildResult


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
    _log_reused(built, options["log"])
    scores = scores_of(built)
    document = {**artifact_json(built), **scores}
    if results is not None and method is not None:
        path = write_result(Path(results), method, preset, built, command_line())
        document["result"] = str(path)
    if run_options.as_json:
        print_json(document)
    elif not run_options.quiet:
        echo(*_format_scores(scores))
        if "result" in document:
            echo(f"written: {document['result']}")


def _log_reused(built: BuildResult, targets: Sequence[str]) -> None:
    """Log the curves of a model that existed, so that it was not trained now."""
    from gsx.stages.train.trackers import log_model

    if built.reused and targets:
        log_model(built.artifact, targets)


def _format_scores(scores: dict[str, Any]) -> list[str]:
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    selected, chosen = scores["selected"], scores.get("chosen")
    rules = sorted(SELECTION_RULES, key=lambda rule: rule != selected)
    rows = [
        (
            _format_choice(chosen)
            if chosen
            else SELECTION_RULES[rule] + (" (selected)" if rule == selected else ""),
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
