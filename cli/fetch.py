"""`gsx fetch`: download the raw files of a dataset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gsx.cli.options import json_option, quiet_option, raw_option
from gsx.cli.output import echo, format_bytes, print_json, progress_bar


@click.command(short_help="Download the raw files of a dataset.")
@click.argument("dataset")
@raw_option
@quiet_option
@json_option
def fetch(dataset: str, *, raw: str | None, quiet: bool, as_json: bool) -> None:
    """Download the raw files of DATASET and check their hashes.

    Existing files are kept. `gsx datasets` lists the datasets that can be downloaded.
    """
    from gsx.stages.prepare.download.fetch import fetch_dataset
    from gsx.stages.prepare.stage import metadata_of
    from gsx.storage.artifacts.atomic_files import translate_os_errors

    started = time.perf_counter()
    with (
        progress_bar("fetch", quiet=quiet or as_json, unit="B") as progress,
        translate_os_errors(str(raw), consequence="Finished files are kept.", option="--raw DIR"),
    ):
        files = fetch_dataset(
            dataset, metadata_of(dataset), None if raw is None else Path(raw), progress
        )
    if as_json:
        rows: list[dict[str, Any]] = [
            {"path": str(file.path), "bytes": file.size, "reused": file.reused} for file in files
        ]
        seconds = round(time.perf_counter() - started, 3)
        print_json({"dataset": dataset, "files": rows, "seconds": seconds})
        return
    if quiet:
        return
    for file in files:
        state = "already there" if file.reused else "downloaded"
        echo(f"{state:<14} {format_bytes(file.size):>9}  {file.path}")
    echo(f"next: gsx prepare {dataset} --raw {raw}")
