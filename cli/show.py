"""`gsx show`: print the content of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsx.cli.format_quality import format_quality
from gsx.cli.options import json_option, store_option
from gsx.cli.output import (
    format_bytes,
    format_table,
    in_split_order,
    labelled_nodes,
    print_json,
    printable,
    printable_lines,
)

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact

MAX_EXAMPLES = 10
"""Examples of left-out items that are printed."""


@click.command(short_help="Show the content of an artifact.")
@click.argument("artifact", required=False)
@click.option("--kind", help="Kind of the artifact; required with --latest.")
@click.option("--latest", is_flag=True, help="Show the newest artifact of the kind.")
@store_option
@json_option
def show(
    artifact: str | None, *, kind: str | None, latest: bool, store: str | None, as_json: bool
) -> None:
    """Show the stage, configuration, splits and environments of ARTIFACT.

    ARTIFACT is a key, the beginning of a key, or a directory.
    """
    import msgspec

    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    if artifact is not None:
        resolved = artifact_store.resolve(artifact, kind=kind)
    elif latest and kind:
        resolved = artifact_store.latest(kind)
    else:
        raise UsageError("no artifact given. Name one, or use `--kind KIND --latest`.")
    manifest = resolved.manifest
    if as_json:
        print_json(
            {
                **msgspec.to_builtins(manifest),
                "path": resolved.location.url,
                "splits": in_split_order(manifest.counts),
                "nodes": labelled_nodes(manifest),
                "environments": manifest.summary.get("environments", []),
                "quality": manifest.summary.get("quality", {}),
            }
        )
        return
    click.echo(printable_lines(_format_header(resolved)))
    if manifest.kind == "corpus":
        click.echo(_format_corpus(resolved))
    if isinstance(manifest.summary.get("quality"), dict):
        click.echo(format_quality(manifest.summary["quality"]))
    for warning in manifest.warnings:
        click.echo(f"warning: {printable(warning)}")
    for dropped in manifest.dropped:
        click.echo(f"left out: {dropped.count:,} {printable(dropped.reason)}")
        for example in dropped.examples[:MAX_EXAMPLES]:
            click.echo(f"  {printable(example)}")
        if dropped.count > min(MAX_EXAMPLES, len(dropped.examples)) and dropped.examples:
            click.echo("  …  (`--json` lists them)")


def _format_header(artifact: Artifact) -> str:
    manifest = artifact.manifest
    lines = [
        f"{manifest.kind} {manifest.summary.get('name', '')}".rstrip(),
        f"  key      {manifest.key}",
        f"  digest   {manifest.digest}",
        f"  path     {artifact.location.url}",
        f"  stage    {manifest.stage} v{manifest.stage_version}",
        *(f"             {key} = {_format_value(value)}" for key, value in manifest.config.items()),
        f"  content  {len(manifest.files)} files, {format_bytes(manifest.size)}",
    ]
    lines += [f"  {parent.role:<8} {parent.kind} {parent.key[:12]}" for parent in manifest.parents]
    return "\n".join(lines)


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_corpus(corpus: Artifact) -> str:
    """Return the tables of splits and environments of a corpus."""
    from gsx.errors import ArtifactError

    summary = corpus.manifest.summary
    try:
        names = {row["id"]: row["name"] for row in summary["environments"]}
        graph_rows = [
            (
                group["split"],
                group["env_id"] if group["env_id"] >= 0 else None,
                names.get(group["env_id"], "hidden"),
                group["count"],
                f"{group['min_nodes']}-{group['max_nodes']}",
                group["nodes"] / max(group["count"], 1),
                "/".join(map(str, group["labels"])),
            )
            for group in summary["groups"]
        ]
        node_rows = [
            (
                group["split"],
                group["env_id"] if group["env_id"] >= 0 else None,
                names.get(group["env_id"], "hidden"),
                group["count"],
                "/".join(map(str, group["labels"])),
            )
            for group in summary.get("node_groups", [])
        ]
        oddities = [
            f"{count:,} {name.replace('_', ' ')}"
            for name, count in summary["oddities"].items()
            if count
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"the summary of {corpus.location.url} is not that of a corpus: {error!r}"
        ) from error
    graph_headers = ("SPLIT", "ENV", "ENVIRONMENT", "GRAPHS", "NODES", "MEAN", "LABELS")
    text = format_table(graph_rows, graph_headers)
    if node_rows:
        node_headers = ("SPLIT", "ENV", "ENVIRONMENT", "LABELLED NODES", "LABELS")
        text += "\n\n" + format_table(node_rows, node_headers)
    return text + ("\n" + printable(", ".join(oddities)) if oddities else "")
