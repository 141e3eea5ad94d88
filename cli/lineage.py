"""`gsx lineage`: print the artifacts from which an artifact was built."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, print_json


@click.command(short_help="Show the artifacts from which an artifact was built.")
@click.argument("artifact")
@click.option(
    "--svg", type=click.Path(path_type=Path), metavar="FILE", help="Also draw it as an SVG file."
)
@store_option
@json_option
def lineage(artifact: str, *, svg: Path | None, store: str | None, as_json: bool) -> None:
    """Show the artifacts from which ARTIFACT was built, back to the source corpora."""
    from gsx.storage.artifacts.lineage import walk_lineage
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    ancestors = list(walk_lineage(artifact_store, artifact_store.resolve(artifact)))
    if svg is not None:
        from gsx.pipeline.lineage_svg import lineage_svg
        from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
        from gsx.storage.sharing.atomic_directory import require_file_target

        require_file_target(svg)
        with translate_os_errors(str(svg), consequence="Nothing was drawn.", option="--svg FILE"):
            svg.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(svg, lineage_svg(ancestors).encode())
    if as_json:
        print_json({"lineage": [dataclasses.asdict(ancestor) for ancestor in ancestors]})
        return
    for ancestor in ancestors:
        indent = "   " * ancestor.depth + ("└─ " if ancestor.depth else "")
        role = f"{ancestor.role}: " if ancestor.role else ""
        known = [f"by {ancestor.stage}"] if ancestor.stage else []
        origin = ", ".join([*known, *([] if ancestor.stored else ["not in this store"])])
        changed = "" if ancestor.same_content or not ancestor.stage else " (content differs)"
        pulled = f", {ancestor.origin}" if ancestor.origin else ""
        name = f"{ancestor.kind} {ancestor.key[:12]}"
        echo(f"{indent}{role}{name} {origin}{changed}{pulled}")
