"""Print the statistics of `gsx describe` as tables."""

from __future__ import annotations

from typing import Any

from gsx.cli.output import echo, format_table

MAX_ROWS = 60
"""Maximum rows of statistics by domain; corpora with more get one row per split."""


def print_statistics(document: dict[str, Any]) -> None:
    """Print the statistics of a corpus."""
    if document.get("level") == "node":
        _print_node_statistics(document)
    else:
        _print_graph_statistics(document)


def _print_graph_statistics(document: dict[str, Any]) -> None:
    per_split = len(document["groups"]) > MAX_ROWS
    rows = [
        (
            group["split"],
            None if per_split else group.get("domain_id"),
            group["graphs"],
            group["nodes"]["mean"],
            int(group["nodes"]["quantiles"][0]),
            int(group["nodes"]["quantiles"][-1]),
            group["mean_degree"]["mean"],
            group["max_degree"],
        )
        for group in document["splits" if per_split else "groups"]
    ]
    headers = ("SPLIT", "DOMAIN", "GRAPHS", "NODES", "MIN", "MAX", "DEGREE", "MAX DEGREE")
    echo(*format_table(rows, headers))
    for split, share in document["outside_training_sizes"].items():
        echo(
            f"{split}: {share['below']:.1%} smaller and {share['above']:.1%} larger "
            "than any training graph"
        )
    for split, equal in document["equal_to_training"].items():
        echo(f"{split}: {equal['share']:.1%} have the WL hash of a training graph")


def _print_node_statistics(document: dict[str, Any]) -> None:
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
    echo(*format_table(rows, headers))
    for split, equal in document["equal_to_training"].items():
        echo(f"{split}: {equal['share']:.1%} have the features of a training node")
