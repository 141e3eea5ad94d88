"""Commands that set artifacts beside each other: lineage, diff."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import plain, print_json, say, table

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact


WIDE = 26
"""Letters of a value that are shown."""


@click.command(short_help="Show what an artifact was made from.")
@click.argument("artifact")
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Draw it instead.")
@store_option
@json_option
def lineage(artifact: str, *, svg: Path | None, store: str | None, as_json: bool) -> None:
    """Show what ARTIFACT was made from, back to its sources."""
    from gsx.storage.artifacts.lineage import lineage as ancestors
    from gsx.storage.artifacts.store import Store

    place = Store.at(store)
    found = list(ancestors(place, place.resolve(artifact)))
    if svg is not None:
        from gsx.cli.lineage_svg import lineage_svg
        from gsx.storage.artifacts.atomic_files import explained, write_atomically
        from gsx.storage.sharing.atomic_directory import refuse_unless_file

        refuse_unless_file(svg)
        with explained(str(svg), lost="Nothing was drawn.", other="--svg FILE"):
            svg.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(svg, lineage_svg(found).encode())
    if as_json:
        print_json({"lineage": [dataclasses.asdict(step) for step in found]})
        return
    for step in found:
        indent = "   " * step.depth + ("└─ " if step.depth else "")
        role = f"{step.role}: " if step.role else ""
        made = f"by {step.stage}" if step.stage else "not in this store"
        changed = "" if step.same_content or not step.stage else " (content differs)"
        click.echo(f"{indent}{role}{step.kind} {step.key[:12]} {made}{changed}")


@click.command(short_help="Compare two artifacts.")
@click.argument("left")
@click.argument("right")
@click.option("--manifests-only", is_flag=True, help="Of corpora, compare no graphs.")
@store_option
@json_option
def diff(left: str, right: str, *, manifests_only: bool, store: str | None, as_json: bool) -> None:
    """Compare two artifacts: configuration, inputs, counts and files.

    Of two corpora of graphs also what they share: graphs by hash, and how far sizes, degrees and
    labels lie apart.
    """
    from gsx.storage.artifacts.diff import diff as differences
    from gsx.storage.artifacts.store import Store

    place = Store.at(store)
    a, b = place.resolve(left), place.resolve(right)
    found = differences(a.manifest, b.manifest)
    same = a.manifest.digest == b.manifest.digest
    graphs = None if manifests_only else _compared(a, b)
    if as_json:
        rows = [dataclasses.asdict(item) for item in found]
        more = {} if graphs is None else {"graphs": graphs}
        print_json({"same_content": same, "differences": rows, **more})
        return
    click.echo("same content" if same else "different content")
    left_out: tuple[str, ...] = ()
    if graphs is not None:
        click.echo(_graphs_text(graphs))
        left_out += ("summary", "files")
    if a.manifest.stage != b.manifest.stage:  # options of one mean nothing to the other
        left_out += ("stage_version", "config", "seeds", "raw")
    shown = [item for item in found if item.where.partition(".")[0] not in left_out]
    lines = [(plain(item.where), _short(item.left), _short(item.right)) for item in shown]
    if lines:
        click.echo(table(lines, ("DIFFERS", "LEFT", "RIGHT")))
    if len(shown) < len(found):
        say(f"{len(found) - len(shown)} more differences of {', '.join(left_out)}: --json lists "
            "them")  # fmt: skip


def _short(value: object) -> str:
    """Return a value as one that fits into a column."""
    text = "" if value is None else plain(str(value))
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"


def _compared(left: Artifact, right: Artifact) -> dict[str, Any] | None:
    """Return how the graphs of two corpora compare; None for anything else."""
    from gsx.stages.describe.compare import compare
    from gsx.storage.corpora.corpus import Corpus

    if {left.manifest.kind, right.manifest.kind} != {"corpus"}:
        return None
    a, b = Corpus(left), Corpus(right)
    if {a.info.level, b.info.level} != {"graph"} or a.info.sparse or b.info.sparse:
        return None
    return compare(a, b)


def _graphs_text(graphs: dict[str, Any]) -> str:
    def far(value: float | None) -> str | None:
        return None if value is None else f"{value:.2f}"

    rows = [
        (name, row["left"], row["right"], row["left_found_in_right"], row["right_found_in_left"],
         *(far(row["distance"][key]) for key in ("size", "degree", "label")))
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
    last = "size, degree, label: total variation, 0 = alike, 1 = disjoint; graphs found by hash"
    return f"{table(rows, headers)}\n{last}"
