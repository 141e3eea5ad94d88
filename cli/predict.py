"""`gsx predict`: predict labels of molecules in a table, or of the graphs or nodes of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import device_option, json_option, quiet_option, store_option
from gsx.cli.output import echo, notify, print_json, progress_bar
from gsx.pipeline.commands.option_values import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gsx.pipeline.predict import Columns
    from gsx.stages.nn.device import Device


@click.command(short_help="Predict molecules of a table, or graphs of a corpus.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.argument("data", metavar="FILE.csv|CORPUS")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write: .csv or .parquet.  [default: print CSV]",
)
@click.option(
    "--smiles-column", metavar="COLUMN", help="Column of the SMILES in a table.  [default: smiles]"
)
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Copy this column of a table; repeatable."
)
@click.option("--max-atoms", type=int, help="Largest molecule to predict.  [default: 600]")
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="SPLIT",
    help="Predict this split of a corpus only; repeatable.",
)
@click.option(
    "--selection",
    type=click.Choice(list(RULES)),
    help="Weights to use: best epoch on a validation set, or last epoch.  [default: as trained]",
)
@device_option
@store_option
@quiet_option
@json_option
def predict(
    *,
    models: tuple[str, ...],
    data: str,
    out: Path | None,
    smiles_column: str | None,
    keep: tuple[str, ...],
    max_atoms: int | None,
    splits: tuple[str, ...],
    selection: str | None,
    device: Device,
    store: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict the molecules of a CSV or TSV table of SMILES, or the graphs or nodes of CORPUS.

    Several models, such as runs with different seeds, form an ensemble: their mean prediction is
    written, with the standard deviation over models. Entropy and mutual information, in bits,
    measure the uncertainty of classes. Rows that cannot be predicted, and molecules with an element
    or another category that no training graph has, get a text in the column `problem`.
    """
    from gsx.pipeline.commands.predict import PredictionRequest, open_prediction
    from gsx.storage.artifacts.store import Store
    from gsx.storage.sharing.table_file import check_table_target

    if out is not None:
        check_table_target(out)
    request = PredictionRequest(
        data=data,
        smiles_column=smiles_column,
        keep=keep,
        max_atoms=max_atoms,
        splits=splits,
        selection=selection,
        device=device,
    )
    artifact_store = Store.at(store)
    artifacts = [artifact_store.resolve(model, kind="model") for model in models]
    prediction = open_prediction(artifacts, request, artifact_store)
    if not quiet:
        for note in prediction.notes():
            notify(note)
    with progress_bar("predict", quiet=quiet or as_json or out is None, unit=" rows") as progress:
        rows = _write(prediction.columns(progress), out, as_json=as_json)
    if as_json:
        keys = [artifact.key for artifact in artifacts]
        result = {"path": str(out)} if rows is None else {"predictions": rows}
        document = {"differ_in": prediction.differences, "counts": prediction.counts, **result}
        print_json({"model_keys": keys, **document})
    elif not quiet:
        _print_counts(prediction.counts, out)


def _write(
    columns: Iterator[Columns], out: Path | None, *, as_json: bool
) -> list[dict[str, Any]] | None:
    """Write or print predictions; return the rows if they are to be part of JSON."""
    from gsx.storage.sharing.table_file import csv_lines, table_rows, write_table_file

    if out is not None:
        write_table_file(out, columns)
        return None
    if as_json:
        return table_rows(columns)
    for line in csv_lines(columns):
        echo(line)
    return None


def _print_counts(counts: dict[str, int], out: Path | None) -> None:
    from gsx.pipeline.commands.predict import count_notes

    for note in count_notes(counts):
        notify(note)
    if out is not None:
        echo(f"predict   {counts['rows']:,} rows", f"          {out}")
