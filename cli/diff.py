"""`gsx diff`: compare two artifacts."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_table, notify, print_json

MAX_VALUE_WIDTH = 26
"""Characters of a value that are printed."""


@click.command(short_help="Compare two artifacts.")
@click.argument("left")
@click.argument("right")
@click.option("--manifests-only", is_flag=True, help="Do not compare the graphs of corpora.")
@store_option
@json_option
def diff(left: str, right: str, *, manifests_only: bool, store: str | None, as_json: bool) -> None:
    """Compare two artifacts: configuration, inputs, counts and files.

    For two corpora with graph-level targets, also compare the graphs: common graphs by WL hash, and
    distances between the distributions of sizes, degrees and labels.
    """
    from gsx.pipeline.commands.diff import compare_graphs
    from gsx.storage.artifacts.diff import diff_manifests
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    a, b = artifact_store.resolve(left), artifact_store.resolve(right)
    differences = diff_manifests(a.manifest, b.manifest)
    same_content = a.manifest.digest == b.manifest.digest
    graphs = None if manifests_only else compare_graphs(a, b)
    if as_json:
        rows = [dataclasses.asdict(difference) for difference in differences]
        extra = {} if graphs is None else {"graphs": graphs}
        print_json({"same_content": same_content, "differences": rows, **extra})
        return
    echo("same content" if same_content else "different content")
    hidden: tuple[str, ...] = ()
    if graphs is not None:
        echo(*_format_graphs(graphs))
        hidden += ("summary", "files")
    if a.manifest.stage != b.manifest.stage:  # options of different stages are not comparable
        hidden += ("stage_version", "config", "seeds", "raw")
    shown = [item for item in differences if item.where.partition(".")[0] not in hidden]
    lines = [(item.where, _shorten(item.left), _shorten(item.right)) for item in shown]
    if lines:
        echo(*format_table(lines, ("DIFFERS", "LEFT", "RIGHT")))
    if len(shown) < len(differences):
        notify(
            f"{len(differences) - len(shown)} more differences in {', '.join(hidden)}; "
            "--json lists them"
        )


def _shorten(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= MAX_VALUE_WIDTH else f"{text[: MAX_VALUE_WIDTH - 1]}…"


def _format_graphs(graphs: dict[str, Any]) -> list[str]:
    def format_distance(value: float | None) -> str | None:
        return None if value is None else f"{value:.2f}"

    rows = [
        (name, row["left"], row["right"], row["left_found_in_right"], row["right_found_in_left"],
         *(format_distance(row["distance"][key]) for key in ("size", "degree", "label")))
        for name, row in [*graphs["splits"].items(), ("all", graphs["all"])]
    ]  # fmt: skip
    headers = (
        "SPLIT",
        "LEFT",
        "RIGHT",
        "LEFT IN RIGHT",
        "RIGHT IN LEFT",
        "SIZE",
        "DEGREE",
        "LABEL",
    )
    legend = "size, degree, label: total variation distance, 0 = equal, 1 = disjoint"
    return [*format_table(rows, headers), legend]
