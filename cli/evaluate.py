"""`gsx evaluate`: score trained classifiers on a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsx.cli.options import device_option, json_option, store_option
from gsx.cli.output import echo, format_table, notify, print_json
from gsx.pipeline.commands.option_values import RULES

if TYPE_CHECKING:
    from gsx.stages.nn.device import Device


@click.command(short_help="Score trained classifiers on a corpus.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.argument("corpus")
@click.option(
    "--selection",
    type=click.Choice(list(RULES)),
    help="Weights to use: best epoch on a validation set, or last epoch.  [default: as trained]",
)
@device_option
@store_option
@json_option
def evaluate(
    *,
    models: tuple[str, ...],
    corpus: str,
    selection: str | None,
    device: Device,
    store: str | None,
    as_json: bool,
) -> None:
    """Score every MODEL on CORPUS, by split, environment and range of sizes.

    For one model, 95 % confidence intervals are bootstrapped over the graphs of a split. For
    several models, such as runs with different seeds, mean, standard deviation and Student's t
    intervals are over models.
    """
    from gsx.pipeline.commands.evaluate import all_linear, score_notes, score_table
    from gsx.pipeline.commands.evaluate import evaluate as evaluate_models
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    artifacts = [artifact_store.resolve(model, kind="model") for model in models]
    document = evaluate_models(
        artifacts, resolve_corpus(artifact_store, corpus), selection=selection, device=device
    )
    for note in score_notes(document):
        notify(note)
    if as_json:
        print_json(document)
        return
    rule = RULES[document["selection"]]
    echo("linear model" if all_linear(artifacts) else f"weights of the {rule}")
    echo(*format_table(*score_table(document), wrapped="WHICH"))
