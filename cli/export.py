"""`gsx export`: write a corpus in a layout that other tools read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import FORMATS, RunOptions, run_options
from gsx.cli.output import echo, in_split_order, notify, print_json
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage
from gsx.plurals import counted
from gsx.stages.export.formats import EXPORT_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gsx.storage.artifacts.store import Artifact, Store


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
    from gsx.storage.artifacts.store import Store

    if directory and out and directory != out:
        raise UsageError(f"DIR is {directory}, but --out is {out}; give one of them.")
    target = directory or out
    store = Store.at(run_options.store)
    artifact = resolve_corpus(store, corpus)
    if layout in FORMATS:
        config = {"formats": FORMATS[layout]}
        run_single_stage("convert", config, {"prepare": artifact}, run_options, target)
        return
    if run_options.tag is not None:
        raise UsageError(
            "--tag applies to artifacts of the store. Use it with another file format."
        )
    if target is None:
        raise UsageError(f"no target directory: `gsx export {corpus} --to {layout} DIR`")
    _write(artifact, store, Path(target), run_options, {"format_name": layout, **options})


def _write(
    artifact: Artifact,
    store: Store,
    target: Path,
    run_options: RunOptions,
    options: Mapping[str, Any],
) -> None:
    """Write a corpus to a directory and print the result."""
    from gsx.stages.export.export import export as export_corpus
    from gsx.storage.artifacts.lineage import lineage_manifests
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.portable_copies import identity

    if run_options.dry_run:
        echo(f"export    {artifact.key[:12]}  would be written to {target}")
        return
    started = time.perf_counter()
    lineage = lineage_manifests(store, artifact)
    exported, reused = export_corpus(Corpus(artifact), lineage, target, **options)
    seconds = time.perf_counter() - started
    manifest, source = identity(exported), artifact.manifest
    left_out = [drop for drop in exported.manifest.dropped if drop not in source.dropped]
    if not run_options.quiet:
        for drop in left_out:
            notify(f"export: left out: {drop.count:,} {drop.reason}")
        for text in exported.manifest.warnings:
            if text not in source.warnings:
                notify(f"export: {text}")
    if run_options.as_json:
        print_json(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": str(target),
                "digest": manifest.digest,
                "reused": reused,
                "counts": in_split_order(manifest.counts),
                "left_out": {drop.reason: drop.count for drop in left_out},
                "seconds": round(seconds, 3),
            }
        )
    elif not run_options.quiet:
        state = "reused" if reused else f"built in {seconds:.1f} s"
        count = counted(sum(manifest.counts.values()), "graph")
        echo(f"export    {manifest.key[:12]}  {count:<16} {state}", f"          {target}")
