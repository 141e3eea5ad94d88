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
    from gsx.storage.artifacts.store import Store
    from gsx.storage.gc import find_garbage, list_artifacts, remove_artifacts, remove_garbage

    artifact_store = Store.at(store)
    if artifacts:
        selected = list_artifacts(artifact_store, artifacts, with_descendants=with_descendants)
        items = [item for item, _ in selected]
        if delete:
            remove_artifacts(artifact_store, [artifact for _, artifact in selected])
    else:
        items = list(find_garbage(artifact_store))
        if delete:
            items = [item for item in items if remove_garbage(artifact_store, item)]
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
