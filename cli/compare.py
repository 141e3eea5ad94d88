"""Commands that compare classifiers: evaluate, table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import device_option, json_option, store_option
from gsx.cli.output import RULES, print_json, say, score_text, table
from gsx.cli.resolve_corpus import corpus_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gsx.stages.nn.device import Device
    from gsx.storage.artifacts.store import Artifact


@click.command(short_help="Score trained classifiers on a corpus.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.argument("corpus")
@click.option(
    "--selection",
    type=click.Choice(list(RULES)),
    help="Whose weights to take: best by a split, or last.  [default: the first there is]",
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
    """Score every MODEL on CORPUS: every split, every environment, every range of sizes.

    Of one model, 95 % intervals are over redrawn graphs of a split. Of several, such as the same
    training with other seeds, means, spreads and Student's intervals are over models.
    """
    from gsx.stages.nn.device import device_named
    from gsx.stages.nn.training_loop import one_thread
    from gsx.stages.train.evaluate import evaluate as scores_of
    from gsx.stages.train.evaluate import over_models
    from gsx.stages.train.stage import WEIGHTS
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus

    place = Store.at(store)
    artifacts = _distinct([place.resolve(model, kind="model") for model in models])
    graphs = corpus_named(place, corpus)
    rule = selection or _shared_rule(artifacts, WEIGHTS)
    with one_thread():
        found = [
            scores_of(artifact, Corpus(graphs), WEIGHTS[rule], device_named(device))
            for artifact in artifacts
        ]
    keys = {"corpus_key": graphs.key, "selection": rule}
    if len(found) == 1:
        document = {"model_key": artifacts[0].key, **keys, **found[0]}
    else:
        summary = {"model_keys": [a.key for a in artifacts], "differ_in": differences(artifacts)}
        document = {**summary, **keys, **over_models(found)}
    for split, row in document["splits"].items():
        if row["undefined"]:
            say(f"{document['metric']} is undefined on `{split}`: {row['undefined']}")
    if document.get("differ_in"):
        say(f"the models differ in more than the seed: {', '.join(document['differ_in'])}")
    if as_json:
        print_json(document)
        return
    click.echo(f"weights of the {RULES[rule]}")
    click.echo(_text(document, several=len(found) > 1))


def differences(models: Sequence[Artifact]) -> list[str]:
    """Return the options, and ``corpus``, in which models differ that are not the seed."""
    first = models[0].manifest
    others = [model.manifest for model in models[1:]]
    names = sorted({name for each in (first, *others) for name in each.config} - {"seed"})
    found = [n for n in names if any(o.config.get(n) != first.config.get(n) for o in others)]
    digests = [parent.digest for parent in first.parents]
    if any([parent.digest for parent in other.parents] != digests for other in others):
        found.append("corpus")
    return found


def _distinct(models: list[Artifact]) -> list[Artifact]:
    from gsx.errors import UsageError

    keys = [model.key for model in models]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise UsageError(f"model {twice[:12]} is named twice; a mean over models takes each once")
    return models


def _shared_rule(models: Sequence[Artifact], weights: dict[str, str]) -> str:
    """Return the first rule by which every model has weights."""
    return next((r for r in RULES if all(weights[r] in m.manifest.files for m in models)), "last")


def _text(document: dict[str, Any], *, several: bool) -> str:
    metric = document["metric"].upper()
    what = "NODES" if "nodes" in next(iter(document["splits"].values())) else "GRAPHS"
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
            (split, which, _items(row), score_text(row["score"]), _between(row.get("interval")))
            for split, which, row in rows
        ]
        return table(lines, ("SPLIT", "WHICH", what, metric, "95 %"))
    spreads = [
        (
            split,
            which,
            _items(row),
            score_text(row["mean"]),
            score_text(row["std"]),
            _between(row["interval"]),
        )
        for split, which, row in rows
    ]
    return table(spreads, ("SPLIT", "WHICH", what, metric, "STD", "95 %"))


def _items(row: dict[str, Any]) -> int:
    """Return how many graphs, or nodes, a row is about."""
    count: int = row["nodes"] if "nodes" in row else row["graphs"]
    return count


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


@click.command("table", short_help="Compare training runs: methods by datasets.")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "csv", "latex", "json"]),
    default="markdown",
    show_default=True,
    help="How the table is written.",
)
@click.option(
    "--published",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Published numbers to set beside ours.  [default: published.csv in RESULTS or above it]",
)
@json_option
def tabulate(*, results: Path, form: str, published: Path | None, as_json: bool) -> None:
    """Compare the training runs in RESULTS: OOD test scores, mean ± std (seeds).

    The epoch of each run was chosen by OOD validation.
    """
    import dataclasses

    from gsx.stages.train import results_table as tables

    runs, others = tables.read_results(results)
    if published is None:
        here = (results / "published.csv", results.resolve().parent / "published.csv")
        published = next((path for path in here if path.is_file()), None)
    known = tables.read_published(published) if published else {}
    cells = tables.summarize(runs, known)
    if others:
        say(f"{others} JSON files in {results} are not results of `gsx train`; left out")
    if as_json or form == "json":
        print_json({"cells": [dataclasses.asdict(cell) for cell in cells]})
        return
    formats = {
        "markdown": tables.markdown,
        "latex": tables.latex,
        "csv": tables.comma_separated,
    }
    click.echo(formats[form](cells))
