"""`gsx push`: copy an artifact into another store."""

from __future__ import annotations

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.transfer import ancestor_locations, transfer_all, with_lineage_option


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
    from gsx.storage.artifacts.store import Store
    from gsx.storage.sharing.push_pull import push as push_artifact

    source, target = Store.at(store), Store.at(to)
    resolved = source.resolve(artifact)
    ancestors = ancestor_locations(source, resolved.manifest) if with_lineage else []
    first, *_ = locations = [*ancestors, resolved.location]
    transfer_all(
        locations,
        lambda location: push_artifact(
            source.resolve(location.url), target, probe=location is first
        ),
        as_json=as_json,
    )
