"""Print the statistics of `gsx describe` as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsx.cli.format_labels import format_counts, format_target, format_targets, label_note
from gsx.cli.output import echo, format_table, in_split_order, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gsx.stages.describe.statistics_file import GraphStatistics, NodeStatistics, SplitRow

MAX_ROWS = 40
"""Maximum rows of the table by split and domain; corpora with more have none."""
_SIZES = ("GRAPHS", "NODES", "MEAN", "DEGREE", "MAX")


def print_statistics(document: GraphStatistics | NodeStatistics) -> None:
    """Print the statistics of a corpus."""
    if document.get("level") == "node":
        _print_node_statistics(document)  # type: ignore[arg-type]
    else:
        _print_graph_statistics(document)  # type: ignore[arg-type]


def _print_graph_statistics(document: GraphStatistics) -> None:
    groups, domain = document["groups"], document.get("domain", "domain")
    domains = f"{domain}s" if not domain.endswith("s") else domain
    rows: list[tuple[Any, ...]] = [
        (
            row["split"],
            sum(group["split"] == row["split"] for group in groups),
            *_sizes(row),
            _labels(document, row),
        )
        for row in document["splits"]
    ]
    _print_rows(rows, ("SPLIT", domains.upper(), *_SIZES, "LABELS"))
    _print_labels(document, "graphs")
    echo(f"{domains}: number of different ones")
    if len(document["splits"]) < len(groups) <= MAX_ROWS:
        names = document.get("domains", [])
        per_domain = [(row["split"], _domain(row, names), *_sizes(row)) for row in groups]
        echo("")
        _print_rows(per_domain, ("SPLIT", domain.upper(), *_SIZES))
    _print_comparison(document)
    _print_features(document)


def _print_rows(rows: Sequence[tuple[Any, ...]], headers: tuple[str, ...]) -> None:
    """Print a table without its last column if that is empty."""
    shown = len(headers) if any(row[-1] != "" for row in rows) else len(headers) - 1
    echo(*format_table([row[:shown] for row in rows], headers[:shown]))


def _domain(row: SplitRow, names: Sequence[str]) -> str | int:
    id_ = row.get("domain_id", -1)
    if 0 <= id_ < len(names):
        return names[id_]
    return id_ if id_ >= 0 else "unknown"


def _sizes(group: SplitRow) -> tuple[int, str, float, float, int]:
    """Return the cells of sizes and degrees."""
    quantiles = group["nodes"]["quantiles"]
    sizes = f"{int(quantiles[0])}-{int(quantiles[-1])}"
    degree = group["mean_degree"]["mean"]
    return group["graphs"], sizes, group["nodes"]["mean"], degree, group["max_degree"]


def _labels(document: GraphStatistics | NodeStatistics, row: Mapping[str, Any]) -> str:
    """Return the cell of labels; empty if a table of targets follows."""
    if "targets" not in document:
        return format_counts(row["labels"])
    targets = document["targets"].get(row["split"], [])
    return format_target(targets[0]) if len(targets) == 1 else ""


def _print_labels(document: GraphStatistics | NodeStatistics, items: str) -> None:
    """Print what labels mean, and the table of targets."""
    targets = {str(split): rows for split, rows in document.get("targets", {}).items()}
    echo(*format_targets(targets))
    if "task" in document:
        echo(*wrap(label_note(document["task"], document.get("outputs", []), items)).split("\n"))


def _print_comparison(document: GraphStatistics) -> None:
    """Print the table that compares splits with training."""
    outside = {str(split): share for split, share in document["outside_training_sizes"].items()}
    shift = {str(split): row for split, row in document["shift"].items()}
    equal = {str(split): row for split, row in document["equal_to_training"].items()}
    rows = [
        (
            split,
            f"{share['below']:.1%}",
            f"{share['above']:.1%}",
            f"{shift[split]['domains_of_training']:.1%}",
            f"{equal[split]['share']:.1%}",
        )
        for split, share in in_split_order(outside).items()
        if split in shift and split in equal
    ]
    if rows:
        domain = document.get("domain", "domain").upper()
        headers = ("SPLIT", "SMALLER", "LARGER", f"TRAINING {domain}", "EQUAL")
        echo("", *format_table(rows, headers))
        note = (
            "graphs that are smaller or larger than any training graph, have the "
            f"{domain.lower()} of one, or equal one (WL hash)"
        )
        echo(*wrap(note).split("\n"))


def _print_features(document: GraphStatistics | NodeStatistics) -> None:
    """Print means of node features, or the share of nodes with categories that training lacks."""
    features = {
        str(row["split"]): row["features"] for row in document["splits"] if row.get("features")
    }
    unseen = {
        split: row["nodes_with_unseen_words"]
        for split, row in features.items()
        if "nodes_with_unseen_words" in row and split != "train"
    }
    if any(unseen.values()):
        shares = ", ".join(f"{split} {share:.1%}" for split, share in unseen.items())
        echo(
            "",
            *wrap(f"nodes with a feature category that no training node has: {shares}").split("\n"),
        )
    elif unseen:
        echo("", "every feature category of held-out graphs occurs in training graphs")
    if "train" not in features or "mean" not in features["train"]:
        return
    rows = _feature_rows(features, document.get("feature_names", []))
    if rows:
        others = [split for split in features if split != "train"]
        echo("", *format_table(rows, ("FEATURE", "TRAIN", "STD", *(s.upper() for s in others))))
        echo("means of node features per split, and their standard deviation in training")


def _feature_rows(features: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return one row per feature that is not constant in training."""
    train = features["train"]
    return [
        (
            names[index] if index < len(names) else str(index),
            f"{mean:.3g}",
            f"{train['std'][index]:.2g}",
            *(f"{row['mean'][index]:.3g}" for split, row in features.items() if split != "train"),
        )
        for index, mean in enumerate(train["mean"])
        if any(std[index] for std in (row["std"] for row in features.values()))
    ]


def _print_node_statistics(document: NodeStatistics) -> None:
    rows = [
        (
            row["split"],
            row["nodes"],
            row["degree"]["mean"],
            int(row["degree"]["quantiles"][-1]),
            row["features_present"]["mean"],
            f"{row['edges_to_training']:.1%}",
            f"{document['equal_to_training'][row['split']]['share']:.1%}"
            if row["split"] in document["equal_to_training"]
            else None,
            _labels(document, row),
        )
        for row in document["splits"]
    ]
    headers = ("SPLIT", "NODES", "DEGREE", "MAX", "FEATURES", "TO TRAINING", "EQUAL", "LABELS")
    _print_rows(rows, headers)
    _print_labels(document, "nodes")
    note = (
        "features: mean number of non-zero features; to training: edges to training nodes; equal: "
        "nodes with the features of a training node"
    )
    echo(*wrap(note).split("\n"))
    _print_features(document)
