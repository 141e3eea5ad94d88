"""Helpers of `gsx push` and `gsx pull`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from gsx.cli.output import echo, format_bytes, in_split_order, notify, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.manifest import Manifest, Parent
    from gsx.storage.artifacts.store import Artifact, Store

with_lineage_option = click.option(
    "--with-lineage",
    is_flag=True,
    help="Include the artifacts from which it was built, as far as they exist.",
)


def ancestor_locations(store: Store, manifest: Manifest) -> list[Location]:
    """Return the locations of all ancestors that a store has, parents before children."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.lineage import ancestor_counter
    from gsx.storage.artifacts.verify_files import read_manifest

    count_ancestor = ancestor_counter(f"{manifest.kind} {manifest.key[:12]}")
    visited: set[str] = set()
    locations: list[Location] = []
    pending: list[tuple[Location | None, Iterator[Parent]]] = [(None, iter(manifest.parents))]
    while pending:
        child, remaining = pending[-1]
        parent = next(remaining, None)
        if parent is None:
            pending.pop()
            locations += [child] if child is not None else []
            continue
        count_ancestor()
        location = store.folder(parent.kind, parent.key)
        if location.url in visited:
            continue
        visited.add(location.url)
        try:
            parent_manifest = read_manifest(location)
        except ArtifactError:
            notify(f"{parent.kind} {parent.key[:12]} is not in {store.location.url}; left out")
            continue
        if parent_manifest.digest == parent.digest:
            pending.append((location, iter(parent_manifest.parents)))
    return locations


def transfer_all(
    locations: list[Location],
    transfer: Callable[[Location], tuple[Artifact, bool]],
    *,
    as_json: bool,
) -> None:
    """Transfer artifacts one after another and print the results.

    ``transfer`` returns the copy, and whether it existed already.
    """
    rows = []
    for location in locations:
        started = time.perf_counter()
        copied, reused = transfer(location)
        seconds = time.perf_counter() - started
        manifest = copied.manifest
        rows.append(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": copied.location.url,
                "digest": manifest.digest,
                "reused": reused,
                "counts": in_split_order(manifest.counts),
                "bytes": manifest.size,
                "seconds": round(seconds, 3),
            }
        )
        if not as_json:
            size = format_bytes(manifest.size)
            state = "already there" if reused else f"{size} in {seconds:.1f} s"
            echo(
                f"{manifest.kind:<9} {manifest.key[:12]}  {state}",
                f"          {copied.location.url}",
            )
    if as_json:
        print_json({**rows[-1], "artifacts": rows})
