"""`gsx evaluate`: score trained classifiers on a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsx.stages.nn.device import Device, resolve_device
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.train.config import CLASSICAL
from gsx.stages.train.evaluate import aggregate_models
from gsx.stages.train.evaluate import evaluate as score_model
from gsx.stages.train.model_set import common_rule, config_differences, require_distinct
from gsx.stages.train.stage import WEIGHTS
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.text_table import format_score

Table = tuple[list[tuple[object, ...]], tuple[str, ...]]
"""Rows and headers of a table."""


def evaluate(
    models: Sequence[Artifact],
    corpus: Artifact,
    *,
    selection: str | None = None,
    device: Device = "auto",
) -> dict[str, Any]:
    """Return the scores of models on a corpus, by split, environment and range of sizes.

    With several models, rows hold the mean over models, and its interval.
    """
    require_distinct(models)
    rule = selection or common_rule(models)
    with one_thread():
        scores = [
            score_model(artifact, Corpus(corpus), WEIGHTS[rule], resolve_device(device))
            for artifact in models
        ]
    keys = {"corpus_key": identity(corpus).key, "selection": rule}
    if len(scores) == 1:
        return {"model_key": models[0].key, **keys, **scores[0]}
    model_keys = [artifact.key for artifact in models]
    header = {"model_keys": model_keys, "differ_in": config_differences(models)}
    return {**header, **keys, **aggregate_models(scores)}


def score_notes(document: dict[str, Any]) -> list[str]:
    """Return what a reader of scores should know: undefined metrics, models of different kinds."""
    notes = [
        f"{document['metric']} is undefined on `{split}`: {row['undefined']}"
        for split, row in document["splits"].items()
        if row["undefined"]
    ]
    if document.get("differ_in"):
        differences = ", ".join(document["differ_in"])
        notes.append(f"the models differ in more than the seed: {differences}")
    return notes


def all_linear(models: Sequence[Artifact]) -> bool:
    """Return whether all models are linear."""
    return all(artifact.manifest.config.get("backbone") in CLASSICAL for artifact in models)


def score_table(document: dict[str, Any]) -> Table:
    """Return the scores as rows of text: by split, then by environment and range of sizes."""
    metric = document["metric"].upper()
    unit = "NODES" if "nodes" in next(iter(document["splits"].values())) else "GRAPHS"
    several = "model_keys" in document
    rows: list[tuple[object, ...]] = [
        (
            split,
            subset,
            count_of(row),
            *_score_cells(row, several=several),
            _format_interval(row.get("interval")),
        )
        for split, subset, row in score_rows(document)
    ]
    scores = (metric, "STD") if several else (metric,)
    return rows, ("SPLIT", "WHICH", unit, *scores, "95 %")


def score_rows(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return split, name of the subset, and scores of every row."""
    return [
        *((split, "all", row) for split, row in document["splits"].items()),
        *((row["split"], f"environment {row['name']}", row) for row in document["environments"]),
        *(
            (row["split"], f"{row['min_nodes']}-{row['max_nodes']} nodes", row)
            for row in document["sizes"]
        ),
    ]


def count_of(row: dict[str, Any]) -> int:
    """Return the number of graphs or nodes of a row."""
    count: int = row["nodes"] if "nodes" in row else row["graphs"]
    return count


def _score_cells(row: dict[str, Any], *, several: bool) -> tuple[str | None, ...]:
    names = ("mean", "std") if several else ("score",)
    return tuple(format_score(row[name]) for name in names)


def _format_interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
