"""How the shift report is shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.output import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gsx.storage.artifacts.publish import Built

MOST_ROWS = 60
"""Rows of statistics by domain that are shown; beyond, there is a row per split."""


def show_statistics(built: Built) -> None:
    """Print a report as tables."""
    document = json.loads(built.artifact.place.read_bytes("statistics.json", limit=1 << 30))
    if document.get("level") == "node":
        _show_nodes(document)
        return
    many = len(document["groups"]) > MOST_ROWS
    rows = [
        (
            group["split"],
            None if many else group["domain_id"],
            group["graphs"],
            group["nodes"]["mean"],
            int(group["nodes"]["quantiles"][0]),
            int(group["nodes"]["quantiles"][-1]),
            group["mean_degree"]["mean"],
            group["max_degree"],
        )
        for group in document["splits" if many else "groups"]
    ]
    headers = ("SPLIT", "DOMAIN", "GRAPHS", "NODES", "MIN", "MAX", "DEGREE", "MAX DEGREE")
    click.echo(table(rows, headers))
    for split, share in document["outside_training_sizes"].items():
        click.echo(
            f"{split}: {share['below']:.1%} smaller and {share['above']:.1%} larger "
            "than any training graph"
        )
    for split, same in document["equal_to_training"].items():
        click.echo(f"{split}: {same['share']:.1%} look like a training graph")


def _show_nodes(document: Mapping[str, Any]) -> None:
    rows = [
        (
            row["split"],
            row["nodes"],
            row["degree"]["mean"],
            int(row["degree"]["quantiles"][-1]),
            row["features_present"]["mean"],
            f"{row['edges_to_training']:.1%}",
            "/".join(map(str, row["labels"])),
        )
        for row in document["splits"]
    ]
    headers = ("SPLIT", "NODES", "DEGREE", "MAX", "FEATURES", "EDGES TO TRAIN", "LABELS")
    click.echo(table(rows, headers))
    for split, same in document["equal_to_training"].items():
        click.echo(f"{split}: {same['share']:.1%} have the features of a training node")
