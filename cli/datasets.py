"""`gsx datasets`: list the datasets that can be prepared."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from gsx.cli.options import json_option, raw_option
from gsx.cli.output import echo, format_table, notify, print_json

LEAVE_ONE_OUT = "motif-lobo-"
LISTED = f"{LEAVE_ONE_OUT}wheel"
"""The one dataset of this family in the table, which would not fit the screen with all of them."""


@click.command(short_help="List the datasets that can be prepared.")
@raw_option
@json_option
def datasets(*, raw: str | None, as_json: bool) -> None:
    """List the datasets that can be prepared, and whether their raw files exist."""
    from gsx.pipeline.commands.datasets import list_datasets

    rows = list_datasets(raw)
    if as_json:
        print_json({"datasets": rows})
        return
    lines = [
        (
            row["name"] + ("*" if row["confirmation"] else ""),
            row["level"],
            row["shift"],
            _displayed_source(row),
            "/".join(str(count) for count in row["counts"].values()),
        )
        for row in rows
        if not row["name"].startswith(LEAVE_ONE_OUT) or row["name"] == LISTED
    ]
    echo(*format_table(lines, ("NAME", "LEVEL", "SHIFT", "SOURCE", "COUNTS")))
    echo("counts: graphs (or nodes) of train/id_val/id_test/ood_val/ood_test")
    echo("*: confirmation data, on which no recipe, option or network is chosen")
    bases = [row["name"].removeprefix(LEAVE_ONE_OUT) for row in rows
             if row["name"].startswith(LEAVE_ONE_OUT)]  # fmt: skip
    echo(*textwrap.wrap(f"also with other bases, {LEAVE_ONE_OUT}BASE: {', '.join(bases)}", 80))
    echo("your own data: gsx prepare --smiles FILE.csv --target COLUMN; --tu, --ogb, …")
    if any(row["source"] == "not found" for row in rows):
        notify("Set the directory of raw files with `--raw DIR` or GSX_RAW_DATA.")
        notify("`gsx fetch NAME --raw DIR` downloads those marked `to fetch`.")


def _displayed_source(row: dict[str, Any]) -> str:
    missing = row["source"] == "not found"
    return "to fetch" if missing and row["fetch"] else str(row["source"])
