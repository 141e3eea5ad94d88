"""`gsx evaluate`: score trained classifiers on a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import device_option, json_option, store_option
from gsx.cli.output import SELECTION_RULES, echo, format_score, format_table, notify, print_json
from gsx.cli.resolve_corpus import resolve_corpus

if TYPE_CHECKING:
    from gsx.stages.nn.device import Device


@click.command(short_help="Score trained classifiers on a corpus.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.argument("corpus")
@click.option(
    "--selection",
    type=click.Choice(list(SELECTION_RULES)),
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
    from gsx.stages.nn.device import resolve_device
    from gsx.stages.nn.training_loop import one_thread
    from gsx.stages.train.config import CLASSICAL
    from gsx.stages.train.evaluate import aggregate_models
    from gsx.stages.train.evaluate import evaluate as score_model
    from gsx.stages.train.model_set import common_rule, config_differences, require_distinct
    from gsx.stages.train.stage import WEIGHTS
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.portable_copies import identity

    artifact_store = Store.at(store)
    artifacts = [artifact_store.resolve(model, kind="model") for model in models]
    require_distinct(artifacts)
    corpus_artifact = resolve_corpus(artifact_store, corpus)
    rule = selection or common_rule(artifacts)
    with one_thread():
        scores = [
            score_model(artifact, Corpus(corpus_artifact), WEIGHTS[rule], resolve_device(device))
            for artifact in artifacts
        ]
    keys = {"corpus_key": identity(corpus_artifact).key, "selection": rule}
    if len(scores) == 1:
        document = {"model_key": artifacts[0].key, **keys, **scores[0]}
    else:
        model_keys = [artifact.key for artifact in artifacts]
        header = {"model_keys": model_keys, "differ_in": config_differences(artifacts)}
        document = {**header, **keys, **aggregate_models(scores)}
    for split, row in document["splits"].items():
        if row["undefined"]:
            notify(f"{document['metric']} is undefined on `{split}`: {row['undefined']}")
    if document.get("differ_in"):
        notify(f"the models differ in more than the seed: {', '.join(document['differ_in'])}")
    if as_json:
        print_json(document)
        return
    linear = all(artifact.manifest.config.get("backbone") in CLASSICAL for artifact in artifacts)
    echo("linear model" if linear else f"weights of the {SELECTION_RULES[rule]}")
    echo(*_format_scores(document, several=len(scores) > 1))


def _format_scores(document: dict[str, Any], *, several: bool) -> list[str]:
    metric = document["metric"].upper()
    unit = "NODES" if "nodes" in next(iter(document["splits"].values())) else "GRAPHS"
    rows = [
        *((split, "all", row) for split, row in document["splits"].items()),
        *((row["split"], f"environment {row['name']}", row) for row in document["environments"]),
        *(
            (row["split"], f"{row['min_nodes']}-{row['max_nodes']} nodes", row)
            for row in document["sizes"]
        ),
    ]
    if not several:
        lines = [
            (
                split,
                subset,
                _count(row),
                format_score(row["score"]),
                _format_interval(row.get("interval")),
            )
            for split, subset, row in rows
        ]
        return format_table(lines, ("SPLIT", "WHICH", unit, metric, "95 %"), wrapped="WHICH")
    lines_of_several = [
        (
            split,
            subset,
            _count(row),
            format_score(row["mean"]),
            format_score(row["std"]),
            _format_interval(row["interval"]),
        )
        for split, subset, row in rows
    ]
    return format_table(
        lines_of_several, ("SPLIT", "WHICH", unit, metric, "STD", "95 %"), wrapped="WHICH"
    )


def _count(row: dict[str, Any]) -> int:
    """Return the number of graphs or nodes of a row."""
    count: int = row["nodes"] if "nodes" in row else row["graphs"]
    return count


def _format_interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
