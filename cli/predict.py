"""`gsx predict`: predict labels of molecules in a table, or of the graphs or nodes of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import device_option, json_option, quiet_option, store_option
from gsx.cli.output import SELECTION_RULES, echo, notify, print_json, progress_bar
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gsx.pipeline.predict import Columns, PredictedBlock
    from gsx.stages.nn.device import Device
    from gsx.stages.train.ensemble import Ensemble

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""Suffixes of tables of molecules."""


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
    type=click.Choice(list(SELECTION_RULES)),
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
    from gsx.pipeline.predict import (
        SmilesRequest,
        load_ensemble,
        predict_corpus,
        predict_smiles,
    )
    from gsx.stages.chem.limits import MAX_ATOMS
    from gsx.stages.train.model_set import config_differences
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.sharing.table_file import check_table_target

    if out is not None:
        check_table_target(out)
    is_table = data.lower().endswith(TABLES) and not Path(data).is_dir()
    _check_options(
        is_table, splits=splits, smiles_column=smiles_column, keep=keep, max_atoms=max_atoms
    )
    artifact_store = Store.at(store)
    artifacts = [artifact_store.resolve(model, kind="model") for model in models]
    corpus = None if is_table else Corpus(resolve_corpus(artifact_store, data))
    ensemble = load_ensemble(
        artifact_store,
        artifacts,
        selection=selection,
        device=device,
        corpora=() if corpus is None else (corpus,),
    )
    differences = config_differences(artifacts) if len(artifacts) > 1 else []
    if not quiet:
        _print_notes(ensemble, differences)
    with progress_bar("predict", quiet=quiet or as_json or out is None, unit=" rows") as progress:
        if corpus is not None:
            blocks = predict_corpus(ensemble, corpus, splits or None, progress)
        else:
            request = SmilesRequest(
                path=Path(data),
                smiles_column=smiles_column,
                keep=keep,
                max_atoms=max_atoms or MAX_ATOMS,
                progress=progress,
            )
            blocks = predict_smiles(ensemble, request)
        counts, rows = _write(blocks, out, as_json=as_json)
    if as_json:
        keys = [artifact.key for artifact in artifacts]
        result = {"path": str(out)} if rows is None else {"predictions": rows}
        print_json({"model_keys": keys, "differ_in": differences, "counts": counts, **result})
    elif not quiet:
        _print_counts(counts, out)


def _check_options(is_table: bool, splits: tuple[str, ...], **table_options: object) -> None:  # noqa: FBT001
    """Raise UsageError for an option that does not apply to a table, or to a corpus."""
    if is_table and splits:
        raise UsageError("--split applies to a corpus; a table of molecules has no splits.")
    for name, value in table_options.items():
        if not is_table and value not in (None, ()):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} applies to a table (.csv or .tsv), not to a corpus.")
        if name == "max_atoms" and isinstance(value, int) and value < 1:
            raise UsageError(f"--max-atoms must be at least 1; got {value}")


def _print_notes(ensemble: Ensemble, differences: list[str]) -> None:
    if not ensemble.named:
        notify(
            "the training corpus is not in the store: outputs have no names, and categories that "
            "no training graph has are not reported"
        )
    if differences:
        notify(f"the models differ in more than the seed: {', '.join(differences)}")


def _write(
    blocks: Iterable[PredictedBlock], out: Path | None, *, as_json: bool
) -> tuple[dict[str, int], list[dict[str, Any]] | None]:
    """Write or print predictions; return counts, and the rows if they are to be part of JSON."""
    from gsx.storage.sharing.table_file import csv_lines, table_rows, write_table_file

    counts = {"rows": 0, "missing": 0, "unknown": 0}

    def count() -> Iterator[Columns]:
        for block in blocks:
            counts["rows"] += len(next(iter(block.columns.values())))
            counts["missing"] += block.missing
            counts["unknown"] += block.unknown
            yield block.columns

    if out is not None:
        write_table_file(out, count())
        return counts, None
    if as_json:
        return counts, table_rows(count())
    for line in csv_lines(count()):
        echo(line)
    return counts, None


def _print_counts(counts: dict[str, int], out: Path | None) -> None:
    problems = [
        f"{counts[name]:,} {text}"
        for name, text in (
            ("missing", "without a prediction"),
            ("unknown", "with categories that no training graph has"),
        )
        if counts[name]
    ]
    if problems:
        notify(f"{' and '.join(problems)}; see the column `problem`")
    if out is not None:
        echo(f"predict   {counts['rows']:,} rows", f"          {out}")
