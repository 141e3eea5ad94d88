"""`gsx push`: copy an artifact into another store."""

from __future__ import annotations

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import notify
from gsx.cli.transfer import print_transfers, with_lineage_option


@click.command(short_help="Copy an artifact into another store.")
@click.argument("artifact")
@click.argument("to", metavar="STORE")
@with_lineage_option
@store_option
@json_option
def push(artifact: str, to: str, *, with_lineage: bool, store: str | None, as_json: bool) -> None:
    """Copy ARTIFACT into STORE, a directory or a URL such as s3://bucket/prefix.

    The artifact is verified first and becomes visible in STORE when it is complete. The same
    command resumes an interrupted push.
    """
    from gsx.pipeline.commands.transfer import push as push_artifact
    from gsx.storage.artifacts.store import Store

    source, target = Store.at(store), Store.at(to)
    resolved = source.resolve(artifact)
    copies = push_artifact(resolved, source, target, notify, with_lineage=with_lineage)
    print_transfers(copies, as_json=as_json)
