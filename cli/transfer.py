"""Output of `gsx push` and `gsx pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsx.cli.output import echo, format_bytes, in_split_order, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gsx.pipeline.commands.transfer import Transferred

with_lineage_option = click.option(
    "--with-lineage",
    is_flag=True,
    help="Include the artifacts from which it was built, as far as they exist.",
)


def print_transfers(copies: Iterable[Transferred], *, as_json: bool) -> None:
    """Print copied artifacts, one after another."""
    rows = []
    for copied in copies:
        manifest, url = copied.artifact.manifest, copied.artifact.location.url
        rows.append(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": url,
                "digest": manifest.digest,
                "reused": copied.reused,
                "counts": in_split_order(manifest.counts),
                "bytes": manifest.size,
                "seconds": round(copied.seconds, 3),
            }
        )
        if not as_json:
            size = format_bytes(manifest.size)
            state = "already there" if copied.reused else f"{size} in {copied.seconds:.1f} s"
            echo(f"{manifest.kind:<9} {manifest.key[:12]}  {state}", f"          {url}")
    if as_json:
        print_json({**rows[-1], "artifacts": rows})
