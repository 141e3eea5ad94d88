"""Commands that look at what there is: datasets, ls, show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.format_quality import quality_text
from gsx.cli.options import json_option, raw_option, store_option
from gsx.cli.output import (
    node_counts,
    ordered,
    plain,
    plain_lines,
    print_json,
    readable_bytes,
    say,
    table,
)

if TYPE_CHECKING:
    from gsx.stages.prepare.dataset import Card
    from gsx.storage.artifacts.store import Artifact

LISTED = 10
"""Things left out that are shown."""


@click.command(short_help="List the datasets that can be prepared.")
@raw_option
@json_option
def datasets(*, raw: str | None, as_json: bool) -> None:
    """List the datasets that can be prepared, and whether their raw files are there."""
    from gsx.stages.prepare.download.catalog import remote_files
    from gsx.stages.prepare.stage import FAMILIES

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "level": card.level,
            "shift": card.shift,
            "source": _source(card, raw),
            "counts": dict(card.counts),
            "fetch": bool(remote_files(card)),
        }
        for family in FAMILIES
        if family.listed
        for name in family.names
        for card in (family.card(name),)
    ]
    if as_json:
        print_json({"datasets": rows})
        return
    shown = [
        (row["name"], row["level"], row["shift"], _shown_source(row), _slashes(row["counts"]))
        for row in rows
    ]
    click.echo(table(shown, ("NAME", "LEVEL", "SHIFT", "SOURCE", "COUNTS")))
    click.echo("counts: train/id_val/id_test/ood_val/ood_test, of graphs or, by level, of nodes")
    click.echo("your own: gsx prepare --smiles FILE.csv --target COLUMN; also --tu, --ogb, --pyg")
    if any(row["source"] == "not found" for row in rows):
        say("Name the folder of raw files with `--raw DIR` or GSX_RAW_DATA.")
        say("`gsx fetch NAME --raw DIR` downloads those that can be fetched.")


def _source(card: Card, raw: str | None) -> str:
    """Say where the graphs of a dataset come from, and whether that is there."""
    if not card.raw:
        return "built in"
    found = raw is not None and all(each.find(Path(raw)) for each in card.raw)
    return "raw files" if found else "not found"


def _shown_source(row: dict[str, Any]) -> str:
    missing = row["source"] == "not found"
    return "to fetch" if missing and row["fetch"] else str(row["source"])


def _slashes(counts: dict[str, int]) -> str:
    return "/".join(str(count) for count in counts.values())


@click.command()
@store_option
@click.option("--kind", help="Only artifacts of this kind.")
@json_option
def ls(*, store: str | None, kind: str | None, as_json: bool) -> None:
    """List the artifacts of a store."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.store import Store

    place = Store.at(store)
    found, damaged = [], []
    for entry in place.entries():
        if kind in (None, entry[0]):
            try:
                found.append(place.peek_at(place.folder(*entry)))
            except ArtifactError as error:
                damaged.append({"path": place.folder(*entry).url, "what": str(error)})
    if as_json:
        print_json({"artifacts": [_row(artifact) for artifact in found], "damaged": damaged})
    else:
        _show_listing(found)
        if not found:
            say(f"No artifacts in {place.place.url} yet; `gsx prepare` makes one.")
    for item in damaged:
        click.echo(plain_lines(f"DAMAGED  {item['what']}"), err=True)
    if damaged:
        raise click.exceptions.Exit(3)


def _show_listing(found: list[Artifact]) -> None:
    rows = [
        (
            a.manifest.kind,
            a.key[:12] + ("" if a.generation == 1 else f".g{a.generation}"),
            a.manifest.summary.get("name", "-"),
            sum(a.manifest.counts.values()),
            readable_bytes(a.manifest.size),
            f"{a.manifest.stage} v{a.manifest.stage_version}",
        )
        for a in found
    ]
    click.echo(table(rows, ("KIND", "KEY", "NAME", "COUNT", "SIZE", "STAGE")))


def _row(artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    return {
        "kind": manifest.kind,
        "key": manifest.key,
        "generation": artifact.generation,
        "digest": manifest.digest,
        "path": artifact.place.url,
        "name": manifest.summary.get("name"),
        "counts": manifest.counts,
        "bytes": manifest.size,
        "stage": manifest.stage,
        "stage_version": manifest.stage_version,
    }


@click.command(short_help="Show what an artifact is and holds.")
@click.argument("artifact", required=False)
@click.option("--kind", help="With --latest: the kind to look for.")
@click.option("--latest", is_flag=True, help="Show the newest artifact of a kind.")
@store_option
@json_option
def show(
    artifact: str | None, *, kind: str | None, latest: bool, store: str | None, as_json: bool
) -> None:
    """Show what ARTIFACT is: what made it, its splits and its environments.

    ARTIFACT is a key, the start of a key, or a directory.
    """
    import msgspec

    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    place = Store.at(store)
    if artifact is not None:
        found = place.resolve(artifact, kind=kind)
    elif latest and kind:
        found = place.latest(kind)
    else:
        raise UsageError("name an artifact, or say `--kind KIND --latest`.")
    manifest = found.manifest
    if as_json:
        print_json(
            {
                **msgspec.to_builtins(manifest),
                "path": found.place.url,
                "splits": ordered(manifest.counts),
                "nodes": node_counts(manifest),
                "environments": manifest.summary.get("environments", []),
                "quality": manifest.summary.get("quality", {}),
            }
        )
        return
    click.echo(plain_lines(_headline(found)))
    if manifest.kind == "corpus":
        click.echo(_corpus_text(found))
    if isinstance(manifest.summary.get("quality"), dict):
        click.echo(quality_text(manifest.summary["quality"]))
    for warning in manifest.warnings:
        click.echo(f"warning: {plain(warning)}")
    for dropped in manifest.dropped:
        click.echo(f"left out: {dropped.count:,} {plain(dropped.reason)}")
        for example in dropped.examples[:LISTED]:
            click.echo(f"  {plain(example)}")
        if dropped.count > min(LISTED, len(dropped.examples)) and dropped.examples:
            click.echo("  …  (`--json` lists them)")


def _headline(found: Artifact) -> str:
    manifest = found.manifest
    lines = [
        f"{manifest.kind} {manifest.summary.get('name', '')}".rstrip(),
        f"  key      {manifest.key}",
        f"  digest   {manifest.digest}",
        f"  path     {found.place.url}",
        f"  made by  {manifest.stage} v{manifest.stage_version}",
        *(f"             {key} = {_short(value)}" for key, value in manifest.config.items()),
        f"  holds    {len(manifest.files)} files, {readable_bytes(manifest.size)}",
    ]
    lines += [f"  {parent.role:<8} {parent.kind} {parent.key[:12]}" for parent in manifest.parents]
    return "\n".join(lines)


def _short(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _corpus_text(found: Artifact) -> str:
    from gsx.errors import ArtifactError

    summary = found.manifest.summary
    try:
        names = {row["id"]: row["name"] for row in summary["environments"]}
        rows = [
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
        nodes = [
            (
                group["split"],
                group["env_id"] if group["env_id"] >= 0 else None,
                names.get(group["env_id"], "hidden"),
                group["count"],
                "/".join(map(str, group["labels"])),
            )
            for group in summary.get("node_groups", [])
        ]
        odd = [f"{n:,} {name.replace('_', ' ')}" for name, n in summary["oddities"].items() if n]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"the summary of {found.place.url} is not that of a corpus: {error!r}"
        ) from error
    headers = ("SPLIT", "ENV", "ENVIRONMENT", "GRAPHS", "NODES", "MEAN", "LABELS")
    text = table(rows, headers)
    if nodes:
        words = ("SPLIT", "ENV", "ENVIRONMENT", "LABELLED NODES", "LABELS")
        text += "\n\n" + table(nodes, words)
    return text + ("\n" + plain(", ".join(odd)) if odd else "")
