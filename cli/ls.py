"""`gsx ls`: list the artifacts of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import format_bytes, format_table, notify, print_json, printable_lines

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact


@click.command(short_help="List the artifacts of a store.")
@store_option
@click.option("--kind", help="List only artifacts of this kind.")
@json_option
def ls(*, store: str | None, kind: str | None, as_json: bool) -> None:
    """List the artifacts of a store. Exit code 3 if any is damaged."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    artifacts, damaged = [], []
    for entry in artifact_store.entries():
        if kind in (None, entry[0]):
            folder = artifact_store.folder(*entry)
            try:
                artifacts.append(artifact_store.peek_at(folder))
            except ArtifactError as error:
                damaged.append({"path": folder.url, "what": str(error)})
    if as_json:
        rows = [_artifact_json(artifact) for artifact in artifacts]
        print_json({"artifacts": rows, "damaged": damaged})
    else:
        click.echo(_format_artifacts(artifacts))
        if not artifacts:
            notify(f"No artifacts in {artifact_store.location.url}; `gsx prepare` builds one.")
    for item in damaged:
        click.echo(printable_lines(f"DAMAGED  {item['what']}"), err=True)
    if damaged:
        raise click.exceptions.Exit(3)


def _format_artifacts(artifacts: list[Artifact]) -> str:
    rows = [
        (
            artifact.manifest.kind,
            artifact.key[:12] + ("" if artifact.generation == 1 else f".g{artifact.generation}"),
            artifact.manifest.summary.get("name", "-"),
            sum(artifact.manifest.counts.values()),
            format_bytes(artifact.manifest.size),
            f"{artifact.manifest.stage} v{artifact.manifest.stage_version}",
        )
        for artifact in artifacts
    ]
    return format_table(rows, ("KIND", "KEY", "NAME", "COUNT", "SIZE", "STAGE"))


def _artifact_json(artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    return {
        "kind": manifest.kind,
        "key": manifest.key,
        "generation": artifact.generation,
        "digest": manifest.digest,
        "path": artifact.location.url,
        "name": manifest.summary.get("name"),
        "counts": manifest.counts,
        "bytes": manifest.size,
        "stage": manifest.stage,
        "stage_version": manifest.stage_version,
    }
