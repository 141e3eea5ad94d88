"""`gsx gc`: list or delete garbage of a store, or artifacts."""

from __future__ import annotations

import dataclasses

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_bytes, format_table, print_json
from gsx.plurals import counted


@click.command(short_help="List or delete unused files of a store.")
@click.argument("artifacts", nargs=-1)
@click.option("--delete", is_flag=True, help="Delete the listed items (default: only list them).")
@click.option(
    "--with-descendants", is_flag=True, help="Include artifacts that were built from ARTIFACTS."
)
@store_option
@json_option
def gc(
    artifacts: tuple[str, ...],
    *,
    delete: bool,
    with_descendants: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """List abandoned drafts, superseded generations and orphaned caches of a store.

    With ARTIFACTS, list these instead. Nothing is deleted without --delete.
    """
    from gsx.pipeline.commands.gc import collect_garbage
    from gsx.storage.artifacts.store import Store

    items = collect_garbage(
        Store.at(store), artifacts, delete=delete, with_descendants=with_descendants
    )
    total = sum(item.bytes for item in items)
    if as_json:
        rows = [dataclasses.asdict(item) for item in items]
        print_json({"removed": delete, "bytes": total, "items": rows})
        return
    if items:
        lines = [(item.what, format_bytes(item.bytes), item.path) for item in items]
        echo(*format_table(lines, ("WHAT", "SIZE", "PATH")))
    outcome = "deleted" if delete else "can be deleted; add --delete to do so"
    echo(f"{counted(len(items), 'item')}, {format_bytes(total)} {outcome}")
