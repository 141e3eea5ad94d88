"""`gsx unseal`: score sealed test predictions of all runs at once."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_score, format_table, print_json


@click.command(short_help="Score the sealed test predictions of all runs at once.")
@click.argument("results", type=click.Path(path_type=Path))
@store_option
@json_option
def unseal(*, results: Path, store: str | None, as_json: bool) -> None:
    """Score the test predictions of all result files in RESULTS that `gsx train --seal` wrote.

    Scores are added to the result files, with the time. RESULTS can be unsealed once.
    """
    from datetime import UTC, datetime

    from gsx.stages.train.unseal import unseal_results
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    written = unseal_results(
        results,
        lambda key, kind: artifact_store.resolve(key, kind=kind),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )
    documents = [document for _, document in written]
    if as_json:
        print_json({"unsealed": documents[0]["unsealed"], "results": documents})
        return
    rows = [
        (
            document["dataset"],
            document["method"],
            document["seed"],
            format_score(document["id_test"]),
            format_score(document["ood_test"]),
        )
        for document in documents
    ]
    echo(*format_table(rows, ("DATASET", "METHOD", "SEED", "ID_TEST", "OOD_TEST")))
    record = documents[0]["unsealed"]
    echo(f"{record['runs']} runs unsealed at {record['time']}")
