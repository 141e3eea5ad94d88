"""`gsx export`: write a corpus in a layout that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import FORMATS, RunOptions, run_options
from gsx.cli.output import echo, in_split_order, print_json
from gsx.cli.run_plan import open_session, print_result
from gsx.plurals import counted
from gsx.stages.export.formats import EXPORT_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gsx.pipeline.commands.session import Session
    from gsx.storage.artifacts.store import Artifact


@click.command(short_help="Write a corpus in a layout that other tools read.")
@click.argument("corpus")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option(
    "--to",
    "layout",
    type=click.Choice([*(layout.name for layout in EXPORT_FORMATS), *FORMATS]),
    default="portable",
    show_default=True,
    help="Layout or file format to write.",
)
@click.option(
    "--labels",
    type=click.Choice(["same-class", "argmax", "soft"]),
    default="same-class",
    show_default=True,
    help="good, ogb, dgl, chemprop: leave out graphs with soft labels, use their most likely "
    "class, or keep soft labels.",
)
@click.option("--out", metavar="DIR", help="Same as DIR.")
@click.option("--creator", default="", help="Publisher, for the dataset card.")
@click.option("--url", default="", help="URL of publication, for the dataset card.")
@run_options
def export(
    corpus: str,
    directory: str | None,
    layout: str,
    out: str | None,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Write CORPUS to DIR, a new or empty directory, in a layout that other tools read.

    `portable` contains Parquet files, a dataset card, Croissant metadata, checksums, splits as CSV
    and a PyG loader. `pyg`, `good`, `ogb` and `dgl` are read by these libraries; `csv` is plain
    tables, `smi`, `sdf` and `chemprop` are molecules. `parquet`, `zarr` and `both` write the shards
    in another file format into the store, and to DIR if it is given. Graphs that are left out and
    labels that are converted are printed.
    """
    from gsx.errors import UsageError
    from gsx.pipeline.commands.export import convert
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus

    if directory and out and directory != out:
        raise UsageError(f"DIR is {directory}, but --out is {out}; give one of them.")
    target = directory or out
    session = open_session(run_options)
    artifact = resolve_corpus(session.store, corpus)
    if layout in FORMATS:
        print_result(convert(artifact, layout, session, target), run_options)
        return
    if target is None and session.tag is None:
        raise UsageError(f"no target directory: `gsx export {corpus} --to {layout} DIR`")
    options["format_name"] = layout
    _export(artifact, Path(target or ""), options, session, run_options)


def _export(
    artifact: Artifact,
    target: Path,
    options: Mapping[str, Any],
    session: Session,
    run_options: RunOptions,
) -> None:
    """Write a corpus to a directory and print the result."""
    from gsx.pipeline.commands.export import export as export_corpus

    exported = export_corpus(artifact, target, options, session)
    if exported is None:
        echo(f"export    {artifact.key[:12]}  would be written to {target}")
        return
    manifest = exported.manifest
    for note in exported.notes(artifact):
        session.notify(note)
    if run_options.as_json:
        print_json(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": str(target),
                "digest": manifest.digest,
                "reused": exported.reused,
                "counts": in_split_order(manifest.counts),
                "left_out": {drop.reason: drop.count for drop in exported.left_out},
                "seconds": round(exported.seconds, 3),
            }
        )
    elif not run_options.quiet:
        state = "reused" if exported.reused else f"built in {exported.seconds:.1f} s"
        count = counted(sum(manifest.counts.values()), "graph")
        echo(f"export    {manifest.key[:12]}  {count:<16} {state}", f"          {target}")
