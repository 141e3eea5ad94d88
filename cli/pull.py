"""`gsx pull`: copy an artifact into the local store."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import notify
from gsx.cli.transfer import print_transfers, with_lineage_option


@click.command(short_help="Copy an artifact into the local store.")
@click.argument("artifact")
@click.option("--from", "origin", metavar="STORE", help="Store of ARTIFACT, if ARTIFACT is a key.")
@click.option(
    "--kind",
    default="corpus",
    show_default=True,
    help="Artifact kind, needed if ARTIFACT is a key in an HTTP store.",
)
@click.option(
    "--trust",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Reject an artifact that this key has not signed.",
)
@click.option(
    "--reuse",
    is_flag=True,
    help="Use it in place of a build with the same key, as if it had been built here.",
)
@click.option("--max-bytes", type=int, help="Reject an artifact that is larger.")
@with_lineage_option
@store_option
@json_option
def pull(
    artifact: str,
    *,
    origin: str | None,
    kind: str,
    trust: Path | None,
    reuse: bool,
    max_bytes: int | None,
    with_lineage: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Copy ARTIFACT into the local store: a directory or URL of an artifact, or a key.

    Every file is verified before the artifact becomes visible. The same command resumes an
    interrupted pull. Commands use a pulled artifact if you name it. They use it in place of a build
    only with --trust or --reuse.
    """
    from gsx.pipeline.commands.transfer import pull as pull_artifact
    from gsx.storage.artifacts.store import Store

    copies = pull_artifact(
        artifact,
        Store.at(store),
        notify,
        origin=origin,
        kind=kind,
        trust=trust,
        reuse=reuse,
        max_bytes=max_bytes,
        with_lineage=with_lineage,
    )
    print_transfers(copies, as_json=as_json)
