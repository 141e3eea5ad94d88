"""The command that downloads raw files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gsx.cli.options import json_option, quiet_option, raw_option
from gsx.cli.output import print_json, progress_bar, readable_bytes


@click.command(short_help="Download the raw files of a dataset.")
@click.argument("dataset")
@raw_option
@quiet_option
@json_option
def fetch(dataset: str, *, raw: str | None, quiet: bool, as_json: bool) -> None:
    """Download the raw files of DATASET into the folder of raw files, and check them.

    Files that are there are left as they are; `gsx datasets` says what can be fetched.
    """
    from gsx.stages.prepare.download.fetch import fetch_dataset
    from gsx.stages.prepare.stage import card_of

    start = time.perf_counter()
    with progress_bar("fetch", quiet=quiet or as_json, unit="B") as progress:
        files = fetch_dataset(
            dataset, card_of(dataset), None if raw is None else Path(raw), progress
        )
    if as_json:
        rows: list[dict[str, Any]] = [
            {"path": str(each.path), "bytes": each.size, "reused": each.reused} for each in files
        ]
        seconds = round(time.perf_counter() - start, 3)
        print_json({"dataset": dataset, "files": rows, "seconds": seconds})
        return
    if quiet:
        return
    for each in files:
        how = "already there" if each.reused else "fetched"
        click.echo(f"{how:<14} {readable_bytes(each.size):>9}  {each.path}")
    click.echo(f"now: gsx prepare {dataset} --raw {raw}")
