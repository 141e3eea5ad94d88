"""Commands that hand corpora out: export."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import Making, making_options
from gsx.cli.output import ordered, print_json

if TYPE_CHECKING:
    from gsx.storage.store import Artifact, Store

LAYOUTS = ("portable",)
"""What a directory outside the store may look like."""
FORMATS = {"parquet": ("parquet",), "zarr": ("zarr",), "both": ("parquet", "zarr")}
"""What shards of a corpus in the store may look like."""


@click.command(short_help="Write a corpus for other tools, or in another format.")
@click.argument("corpus")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option(
    "--to",
    "form",
    type=click.Choice([*LAYOUTS, *FORMATS]),
    default="portable",
    show_default=True,
    help="What to write.",
)
@click.option("--out", metavar="DIR", help="The same as DIR.")
@click.option("--creator", default="", help="Who publishes it, for the card.")
@click.option("--url", default="", help="Where it is published, for the card.")
@making_options
def export(
    corpus: str,
    directory: str | None,
    form: str,
    out: str | None,
    creator: str,
    url: str,
    making: Making,
) -> None:
    """Write CORPUS to DIR, a new or empty directory, in a layout that other tools read.

    `portable` is for everybody: Parquet, a dataset card, Croissant, checksums, splits as CSV and a
    loader for PyG. `parquet`, `zarr` and `both` write the shards anew into the store, and to DIR
    if it is named.
    """
    from gsx.errors import UsageError
    from gsx.storage.store import Store

    if directory and out and directory != out:
        raise UsageError(f"DIR is {directory}, but --out says {out}; name one of them.")
    target = directory or out
    store = Store.at(making.store)
    artifact = store.resolve(corpus, kind="corpus")
    if form in FORMATS:
        from gsx.cli.make import run_stage

        options = {"formats": FORMATS[form]}
        run_stage("convert", options, {"prepare": artifact}, making, target)
        return
    if target is None:
        raise UsageError(f"name the directory to write: `gsx export {corpus} --to {form} DIR`")
    _export(artifact, store, Path(target), making, creator=creator, url=url)


def _export(
    artifact: Artifact, store: Store, target: Path, making: Making, *, creator: str, url: str
) -> None:
    from gsx.stages.export import export as write
    from gsx.storage.corpus import Corpus
    from gsx.storage.lineage import manifests

    if making.dry_run:
        click.echo(f"export    {artifact.key[:12]}  would be written to {target}")
        return
    started = time.perf_counter()
    lineage = manifests(store, artifact)
    made, reused = write(Corpus(artifact), lineage, target, creator=creator, url=url)
    seconds = time.perf_counter() - started
    manifest = made.manifest
    if making.as_json:
        print_json(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": str(target),
                "digest": manifest.digest,
                "reused": reused,
                "counts": ordered(manifest.counts),
                "seconds": round(seconds, 3),
            }
        )
    elif not making.quiet:
        how = "already there" if reused else f"made in {seconds:.1f} s"
        count = f"{sum(manifest.counts.values()):,} graphs"
        click.echo(f"export    {manifest.key[:12]}  {count:<16} {how}\n          {target}")


def portable_copy(artifact: Artifact, target: Path, store: Store) -> Path:
    """Write a corpus to ``target`` for people without gsx, and return where it is."""
    from gsx.stages.export import export as write
    from gsx.storage.corpus import Corpus
    from gsx.storage.lineage import manifests

    write(Corpus(artifact), manifests(store, artifact), target)
    return target
