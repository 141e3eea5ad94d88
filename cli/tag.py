"""`gsx tag`: give artifacts names, list names, or remove them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, quiet_option, store_option
from gsx.cli.output import echo, format_table, notify, print_json
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Store


@click.command("tag", short_help="Name artifacts, to use the names instead of keys.")
@click.argument("artifact", required=False)
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Move NAME if it is the tag of another artifact.")
@click.option("--delete", metavar="NAME", help="Remove a tag; the artifact stays.")
@store_option
@quiet_option
@json_option
def tag(
    *,
    artifact: str | None,
    name: str | None,
    force: bool,
    delete: str | None,
    store: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Give ARTIFACT the tag NAME, which every command accepts instead of its key.

    Without arguments, list all tags. A name has up to 64 lower-case letters, digits, `-` and `_`,
    and starts with a letter. A tag keeps its content: a rebuild with --force does not change it.
    """
    from gsx.pipeline.tagging import tag_artifact
    from gsx.storage.artifacts.store import Store
    from gsx.storage.artifacts.tags import remove_tag

    artifact_store = Store.at(store)
    if delete is not None:
        if artifact is not None:
            raise UsageError("--delete takes the name of a tag and no ARTIFACT.")
        remove_tag(artifact_store.location, delete)
        if as_json:
            print_json({"deleted": delete})
        return
    if artifact is None:
        _list(artifact_store, as_json=as_json)
        return
    if name is None:
        raise UsageError(f"no name. Give one: `gsx tag {artifact} NAME`.")
    resolved = artifact_store.resolve(artifact)
    previous = tag_artifact(artifact_store, resolved, name, replace=force)
    if previous is not None and not quiet:
        notify(f"the tag `{name}` was moved from {previous.text}")
    if as_json:
        print_json({"tag": name, "kind": resolved.manifest.kind, "key": resolved.key})


def _list(store: Store, *, as_json: bool) -> None:
    import msgspec

    from gsx.storage.artifacts.tags import read_tags

    tags = read_tags(store.location)
    if as_json:
        print_json({"tags": {name: msgspec.to_builtins(tag) for name, tag in tags.items()}})
        return
    rows = [(name, tag.kind, tag.key[:12], tag.date) for name, tag in tags.items()]
    echo(*format_table(rows, ("TAG", "KIND", "KEY", "DATE")))
    if not rows:
        notify(f"No tags in {store.location.url}; `gsx tag KEY NAME` sets one.")
