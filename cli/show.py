"""`gsx show`: print the content of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.format_corpus import corpus_targets, format_corpus
from gsx.cli.format_quality import format_quality
from gsx.cli.format_scores import format_scores
from gsx.cli.options import json_option, store_option
from gsx.cli.output import (
    echo,
    format_bytes,
    format_table,
    in_split_order,
    labelled_nodes,
    print_json,
    wrap,
)
from gsx.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.origin import Origin
    from gsx.storage.artifacts.store import Artifact, Store

MAX_WARNINGS = 100
"""Warnings that are printed."""
MAX_VALUE = 2_000
"""Characters of an option that are printed."""
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

    ARTIFACT is a key, the beginning of a key, a tag, or a directory. A directory that `--out` or
    `gsx export` wrote is shown as the corpus that it holds.
    """
    import msgspec

    from gsx.errors import UsageError
    from gsx.storage.artifacts.origin import read_origin
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.portable_copies import identity
    from gsx.storage.corpora.summary import check_summary

    artifact_store = Store.at(store)
    if artifact is not None:
        resolved = artifact_store.resolve(artifact, kind=kind)
    elif latest and kind:
        resolved = artifact_store.latest(kind)
    else:
        raise UsageError("no artifact given. Name one, or use `--kind KIND --latest`.")
    manifest, origin = identity(resolved), read_origin(resolved.location)
    check_summary(manifest)
    tags = _tags(artifact_store, manifest)
    if as_json:
        copy = {} if manifest is resolved.manifest else {"copy": _copy_json(resolved.manifest)}
        print_json(
            {
                **msgspec.to_builtins(manifest),
                **copy,
                "path": resolved.location.url,
                "tags": tags,
                "origin": None if origin is None else msgspec.to_builtins(origin),
                "splits": in_split_order(manifest.counts),
                "nodes": labelled_nodes(manifest),
                "environments": manifest.summary.get("environments", []),
                "quality": manifest.summary.get("quality", {}),
                **({"targets": targets} if (targets := corpus_targets(resolved)) else {}),
            }
        )
        return
    echo(*_format_header(resolved, origin, tags))
    echo(*_format_recommendation(resolved, artifact_store))
    echo(*_format_content(resolved, manifest))
    echo(*_format_warnings(manifest.warnings))
    for dropped in manifest.dropped:
        echo(f"left out: {dropped.count:,} {dropped.reason}")
        for example in dropped.examples[:MAX_EXAMPLES]:
            echo(f"  {example}")
        if dropped.count > min(MAX_EXAMPLES, len(dropped.examples)) and dropped.examples:
            echo("  …  (`--json` lists them)")


def _format_warnings(warnings: Sequence[str]) -> list[str]:
    lines = [
        line
        for warning in warnings[:MAX_WARNINGS]
        for line in wrap(f"warning: {warning}").split("\n")
    ]
    if len(warnings) > MAX_WARNINGS:
        lines.append(f"… and {len(warnings) - MAX_WARNINGS:,} more warnings (`--json` lists them)")
    return lines


def _format_content(artifact: Artifact, manifest: Manifest) -> list[str]:
    """Return splits and environments of a corpus, scores of a model, or other metrics."""
    from gsx.storage.corpora.summary import model_scores

    if manifest.kind == "model":
        return format_scores({**model_scores(manifest)})
    lines = format_corpus(artifact) if manifest.kind == "corpus" else []
    if isinstance(manifest.summary.get("quality"), dict):
        lines += format_quality(manifest.summary["quality"])
    return lines


def _tags(store: Store, manifest: Manifest) -> list[str]:
    """Return the tags of an artifact."""
    from gsx.storage.artifacts.tags import read_tags

    return [
        name
        for name, tag in read_tags(store.location).items()
        if (tag.kind, tag.key, tag.digest) == (manifest.kind, manifest.key, manifest.digest)
    ]


def _copy_json(manifest: Manifest) -> dict[str, Any]:
    """Return the description of a portable copy, in addition to that of its corpus."""
    return {"key": manifest.key, "digest": manifest.digest, "config": manifest.config}


def _format_header(artifact: Artifact, origin: Origin | None, tags: list[str]) -> list[str]:
    from gsx.storage.corpora.portable_copies import identity

    manifest = identity(artifact)
    copy = ""
    if manifest is not artifact.manifest:
        copy = f", a portable copy of {artifact.manifest.config.get('date', 'unknown date')}"
    lines = [
        f"{manifest.kind} {manifest.summary.get('name', '')}".rstrip(),
        f"  key      {manifest.key}",
        f"  digest   {manifest.digest}",
        *([f"  tags     {', '.join(tags)}"] if tags else []),
        f"  path     {artifact.location.url}{copy}",
        *([f"  origin   {origin.describe()}"] if origin is not None else []),
        f"  stage    {manifest.stage} v{manifest.stage_version}",
        *(
            f"             {key} = {_format_value(value)}"
            for key, value in manifest.config.items()
            if value not in (None, "", [])
        ),
        f"  content  {counted(len(manifest.files), 'file')}, {format_bytes(manifest.size)}",
    ]
    lines += [f"  {parent.role:<8} {parent.kind} {parent.key[:12]}" for parent in manifest.parents]
    return lines


def _format_recommendation(artifact: Artifact, store: Store) -> list[str]:
    """Return the recommended recipe of an artifact, or of its parent, and why."""
    from gsx.storage.corpora.summary import recommendation_summary

    manifests = [artifact.manifest]
    for parent in artifact.manifest.parents:
        if parent.kind == "recommendation":
            stored = store.peek(parent.kind, parent.key, parent.digest)
            manifests += [] if stored is None else [stored.manifest]
    lines = []
    for manifest in manifests:
        if manifest.kind == "recommendation":
            summary = recommendation_summary(manifest)
            lines += wrap(f"  recommended: {summary['choice']}: {summary['reason']}").split("\n")
    if artifact.manifest.kind == "recommendation":
        lines += _format_recipes(artifact)
    return lines


def _format_recipes(recommendation: Artifact) -> list[str]:
    """Return the differences of all compared recipes."""
    from gsx.storage.corpora.summary import recommendation_summary

    summary = recommendation_summary(recommendation.manifest)
    rows = []
    for recipe in summary["recipes"]:
        cells = [
            "" if row is None else f"{row['mean']:+.3g} ({row['low']:+.3g} to {row['high']:+.3g})"
            for row in (recipe["screen"], recipe["confirmed"])
        ]
        rows.append((recipe["name"], *cells))
    return format_table(rows, ("RECIPE", "SCREEN", "TRAINED")) if rows else []


def _format_value(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}… (`--json` prints it whole)"
