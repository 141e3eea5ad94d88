"""`gsx evaluate`: score trained classifiers on a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import device_option, json_option, store_option
from gsx.cli.output import SELECTION_RULES, format_score, format_table, notify, print_json
from gsx.cli.resolve_corpus import resolve_corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gsx.stages.nn.device import Device
    from gsx.storage.artifacts.store import Artifact


@click.command(short_help="Score trained classifiers on a corpus.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.argument("corpus")
@click.option(
    "--selection",
    type=click.Choice(list(SELECTION_RULES)),
    help="Weights to use: best epoch on a split, or last epoch.  [default: first available]",
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
    from gsx.stages.train.evaluate import aggregate_models
    from gsx.stages.train.evaluate import evaluate as score_model
    from gsx.stages.train.stage import WEIGHTS
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus

    artifact_store = Store.at(store)
    artifacts = [artifact_store.resolve(model, kind="model") for model in models]
    _require_distinct(artifacts)
    corpus_artifact = resolve_corpus(artifact_store, corpus)
    rule = selection or _common_rule(artifacts, WEIGHTS)
    with one_thread():
        scores = [
            score_model(artifact, Corpus(corpus_artifact), WEIGHTS[rule], resolve_device(device))
            for artifact in artifacts
        ]
    keys = {"corpus_key": corpus_artifact.key, "selection": rule}
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
    click.echo(f"weights of the {SELECTION_RULES[rule]}")
    click.echo(_format_scores(document, several=len(scores) > 1))


def config_differences(models: Sequence[Artifact]) -> list[str]:
    """Return the options other than the seed in which models differ, and ``corpus`` if it does."""
    first = models[0].manifest
    others = [model.manifest for model in models[1:]]
    names = sorted({name for manifest in (first, *others) for name in manifest.config} - {"seed"})
    differing = [n for n in names if any(o.config.get(n) != first.config.get(n) for o in others)]
    digests = [parent.digest for parent in first.parents]
    if any([parent.digest for parent in other.parents] != digests for other in others):
        differing.append("corpus")
    return differing


def _require_distinct(models: list[Artifact]) -> None:
    from gsx.errors import UsageError

    keys = [model.key for model in models]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise UsageError(f"model {repeated[:12]} is listed twice. List each model once.")


def _common_rule(models: Sequence[Artifact], weights: dict[str, str]) -> str:
    """Return the first selection rule for which all models have weights."""
    rules = (
        rule
        for rule in SELECTION_RULES
        if all(weights[rule] in model.manifest.files for model in models)
    )
    return next(rules, "last")


def _format_scores(document: dict[str, Any], *, several: bool) -> str:
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
        return format_table(lines, ("SPLIT", "WHICH", unit, metric, "95 %"))
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
    return format_table(lines_of_several, ("SPLIT", "WHICH", unit, metric, "STD", "95 %"))


def _count(row: dict[str, Any]) -> int:
    """Return the number of graphs or nodes of a row."""
    count: int = row["nodes"] if "nodes" in row else row["graphs"]
    return count


def _format_interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
