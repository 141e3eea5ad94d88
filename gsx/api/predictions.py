"""`gsx.predict`: predict labels of molecules in a table, or of the graphs or nodes of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gsx.api.call import as_tuple, choose_store, public, show_progress, source_of
from gsx.api.display import Result, TableRows
from gsx.api.models import Model, first_model, model_artifacts
from gsx.api.options import PredictOptions
from gsx.api.progress import notify, progress_bar

if TYPE_CHECKING:
    import pandas

    from gsx.pipeline.predict import Columns
    from gsx.storage.corpora.corpus import Corpus

SHOWN = 10
"""Rows that are printed."""


class Predictions(Result):
    """Predictions of a model or an ensemble, one row per molecule, graph or node."""

    def __init__(
        self,
        blocks: Sequence[Columns],
        counts: Mapping[str, int],
        model_keys: Sequence[str],
        differ_in: Sequence[str],
    ) -> None:
        self._blocks = list(blocks)
        self.counts = dict(counts)
        """Rows, rows without a prediction, and rows with unknown categories."""
        self._model_keys = list(model_keys)
        self._differ_in = list(differ_in)

    def __len__(self) -> int:
        return self.counts["rows"]

    def write(self, path: str | Path) -> Path:
        """Write the predictions to a .csv or .parquet file, completely or not at all."""
        from gsx.storage.sharing.table_file import write_table_file

        write_table_file(Path(path), self._blocks)
        return Path(path)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per molecule, graph or node."""
        from gsx.frames import data_frame

        return data_frame(self._columns())

    def to_dict(self) -> dict[str, Any]:
        """Return rows and counts as plain values."""
        from gsx.storage.sharing.table_file import table_rows

        return {
            "model_keys": self._model_keys,
            "differ_in": self._differ_in,
            "counts": self.counts,
            "predictions": table_rows(self._blocks),
        }

    def _columns(self) -> dict[str, Any]:
        """Return all columns, concatenated over blocks."""
        import numpy as np

        columns: dict[str, Any] = {}
        for name in self._blocks[0] if self._blocks else ():
            parts = [block[name] for block in self._blocks]
            if isinstance(parts[0], list):
                columns[name] = [value for part in parts for value in part]
            else:
                columns[name] = np.concatenate(parts)
        return columns

    def _lines(self) -> tuple[list[str], list[str]]:
        from gsx.pipeline.commands.predict import count_notes

        rest = len(self) - SHOWN
        more = [f"… {rest:,} more rows"] if rest > 0 else []
        return [f"Predictions({len(self):,} rows)"], [*more, *count_notes(self.counts)]

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        columns = {
            name: [_short(value) for value in values[:SHOWN]]
            for name, values in self._columns().items()
        }
        return list(zip(*columns.values(), strict=True)), [name.upper() for name in columns]

    def _records(self) -> Sequence[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = self.to_dict()["predictions"]
        return rows


def _short(value: Any) -> object:  # noqa: ANN401
    """Return a value as it is printed: numbers with up to four digits."""
    plain = value.item() if hasattr(value, "item") else value
    return f"{plain:.4g}" if isinstance(plain, float) else plain


@public(PredictOptions)
def predict(
    models: Model | str | Path | Sequence[Model | str | Path],
    data: str | Path | Corpus,
    **options: Unpack[PredictOptions],
) -> Predictions:
    """Predict the molecules of a table of SMILES, or the graphs or nodes of a corpus.

    Several models, such as runs with different seeds, form an ensemble: their mean prediction, with
    standard deviation, entropy and mutual information. All rows are kept in memory.

    Parameters
    ----------
    models
        A Model or several; or their keys, tags, paths or URLs.
    data
        A .csv or .tsv file with SMILES, or a Corpus, or the key, tag, path or URL of one.
    options
        Those of `gsx predict` with underscores: ``smiles_column=``, ``keep=``, ``split=``, …

    Examples
    --------
    >>> predictions = gsx.predict([gsx.train(mine, seed=seed) for seed in range(3)], "new.csv")
    >>> predictions.to_pandas()
    >>> predictions.write("predictions.parquet")
    """
    from gsx.pipeline.commands.predict import PredictionRequest, count_notes, open_prediction

    where = "gsx.predict"
    store = choose_store(options.get("store"), first_model(models), data)
    keep, splits = as_tuple(options.get("keep", ())), as_tuple(options.get("split", ()))
    request = PredictionRequest(
        data=source_of(where, data),
        smiles_column=options.get("smiles_column"),
        keep=keep or (),  # type: ignore[arg-type]
        max_atoms=options.get("max_atoms"),
        splits=splits or (),  # type: ignore[arg-type]
        selection=options.get("selection"),
        device=options.get("device", "auto"),
    )
    artifacts = model_artifacts(where, models, store)
    prediction = open_prediction(artifacts, request, store)
    quiet = options.get("quiet", False)
    shown = show_progress(options.get("progress"), quiet=quiet)
    with progress_bar("predict", shown=shown, unit=" rows") as progress:
        blocks = list(prediction.columns(progress))
    if not quiet:
        for note in (*prediction.notes(), *count_notes(prediction.counts)):
            notify(note)
    keys = [artifact.key for artifact in artifacts]
    return Predictions(blocks, prediction.counts, keys, prediction.differences)
