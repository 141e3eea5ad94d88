"""`gsx ls`: list the artifacts of a store."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, echo_error, format_bytes, format_table, notify, print_json
from gsx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gsx.pipeline.listing import ListedArtifact

ORDERS = ("kind", "date", "name", "score", "size", "key")
SCORES = ("OOD_VAL", "OOD_TEST")
MAX_TEXT, MIN_TEXT = 30, 10
"""Largest and smallest width of a column that is shortened to fit into the terminal."""


@click.command(short_help="List the artifacts of a store.")
@store_option
@click.option("--kind", help="List only artifacts of this kind, such as model.")
@click.option("--stage", help="List only artifacts of this stage, such as generate.")
@click.option("--name", metavar="TEXT", help="List only artifacts whose dataset or tag has TEXT.")
@click.option(
    "--option",
    "conditions",
    multiple=True,
    metavar="NAME=VALUE",
    help="List only artifacts with this option, such as seed=1; repeatable.",
)
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="kind",
    show_default=True,
    help="Order; `score` is that on ood_val. Equal ones are sorted by date, the newest last.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--last", type=int, metavar="N", help="List only the last N.")
@click.option("--long", "-l", "is_long", is_flag=True, help="Print all facts, in full width.")
@json_option
def ls(
    *,
    store: str | None,
    kind: str | None,
    stage: str | None,
    name: str | None,
    conditions: tuple[str, ...],
    sort: str,
    reverse: bool,
    last: int | None,
    is_long: bool,
    as_json: bool,
) -> None:
    """List the artifacts of a store: date, dataset, tags, scores and options.

    Scores are those of the epoch that a model reports. Options are those that differ from the
    defaults, and between artifacts of a stage; --long prints all that differ from the defaults.
    Exit code 3 if any artifact is damaged.
    """
    from gsx.pipeline.listing import Filter, list_store
    from gsx.storage.artifacts.store import Store

    if last is not None and last < 1:
        raise UsageError(f"--last must be at least 1; got {last}")
    artifact_store = Store.at(store)
    condition = Filter(kind=kind, stage=stage, name=name, options=_parse(conditions))
    listing = list_store(artifact_store, condition, order=sort, descending=reverse)
    rows = listing.artifacts[-last:] if last is not None else listing.artifacts
    if as_json:
        documents = [dataclasses.asdict(row) for row in rows]
        print_json({"artifacts": documents, "damaged": listing.damaged})
    else:
        echo(*(_format_long(rows) if is_long else _format(rows, with_kind=kind is None)))
        if not rows:
            _notify_empty(artifact_store.location.url, filtered=condition != Filter())
    for item in listing.damaged:
        echo_error(f"DAMAGED  {item['what']}")
    if listing.damaged:
        raise click.exceptions.Exit(3)


def _parse(conditions: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return names and values of ``NAME=VALUE``."""
    pairs = []
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or not name:
            raise UsageError(f"--option takes NAME=VALUE, such as seed=1; got `{condition}`")
        pairs.append((name.replace("-", "_"), value))
    return tuple(pairs)


def _notify_empty(url: str, *, filtered: bool) -> None:
    if filtered:
        notify(f"No artifacts in {url} meet these conditions; `gsx ls` lists all.")
    else:
        notify(f"No artifacts in {url}; `gsx prepare` builds one.")


def _format(rows: list[ListedArtifact], *, with_kind: bool) -> list[str]:
    """Return a table that fits into the terminal: names, tags and options are shortened.

    Options that all artifacts of a stage share are left out.
    """
    from gsx.pipeline.listing import distinguishing_options

    terminal = shutil.get_terminal_size().columns
    for limit, splits in ((MAX_TEXT, SCORES), (MIN_TEXT, SCORES), (MIN_TEXT, SCORES[:1])):
        table = _fixed_columns(rows, with_kind=with_kind, limit=limit, splits=splits)
        width = max(map(len, table))
        if width + 2 + MAX_TEXT <= terminal:
            break
    options = ["OPTIONS", *map(_format_options, distinguishing_options(rows))]
    space = max(terminal - width - 2, MIN_TEXT)
    return [
        f"{line.ljust(width)}  {_shorten(text, space)}".rstrip()
        for line, text in zip(table, options, strict=True)
    ]


def _fixed_columns(
    rows: list[ListedArtifact], *, with_kind: bool, limit: int, splits: Sequence[str]
) -> list[str]:
    """Return the lines of a table without options; names and tags have up to ``limit`` letters."""
    with_tags, with_scores = any(row.tags for row in rows), any(row.scores for row in rows)
    headers = [
        *(["KIND"] if with_kind else []),
        *("KEY", "DATE", "NAME"),
        *(["TAGS"] if with_tags else []),
        *(splits if with_scores else []),
    ]
    lines: list[tuple[Any, ...]] = [
        (
            *([row.kind] if with_kind else []),
            *(_short_key(row), row.date[:10] or None, _shorten(row.name or "-", limit)),
            *([_shorten(", ".join(row.tags), limit)] if with_tags else []),
            *([_score(row, split.lower()).rjust(len(split)) for split in splits]
              if with_scores else []),
        )
        for row in rows
    ]  # fmt: skip
    return format_table(lines, headers)


def _format_long(rows: list[ListedArtifact]) -> list[str]:
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    lines = [
        (
            row.kind,
            _short_key(row),
            row.date.replace("T", " ")[:19] or None,
            row.name,
            ", ".join(row.tags),
            f"{row.stage} v{row.stage_version}",
            sum(row.counts.values()),
            format_bytes(row.bytes),
            row.metric or "",
            *(_score(row, split) for split in splits),
            _format_options(row.options),
        )
        for row in rows
    ]
    headers = ("KIND", "KEY", "DATE (UTC)", "NAME", "TAGS", "STAGE", "COUNT", "SIZE", "METRIC")
    return format_table(lines, (*headers, *(split.upper() for split in splits), "OPTIONS"))


def _short_key(row: ListedArtifact) -> str:
    return row.key[:12] + ("" if row.generation == 1 else f".g{row.generation}")


def _score(row: ListedArtifact, split: str) -> str:
    value = row.scores.get(split)
    if value is None:
        return ""
    return f"{value:.{3 if row.metric in ('mcc', 'rmse') else 1}f}"


def _format_options(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_format_value(value)}" for name, value in options.items())


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
