"""CSV files with one header line and one row per item."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from gsx.escape import CONTROL, FORMULA, NUMBER, spreadsheet_text, without_controls
from gsx.ragged import Array

Columns = Mapping[str, Array | Sequence[str]]
"""Columns of equal length; a row of a two-dimensional column becomes one cell.

Such a cell is a Python tuple literal without parentheses: numbers separated by commas, with a
trailing comma after a single number and a decimal point in floats.
"""


def write_csv(path: Path, blocks: Iterable[Columns]) -> None:
    """Write consecutive blocks of rows as CSV (RFC 4180, UTF-8); only text is quoted.

    NaN becomes an empty cell. Text is changed as `without_controls` and `spreadsheet_text` do, so
    that neither terminals nor spreadsheets run it.
    """
    options = pyarrow.csv.WriteOptions(
        include_header=False, quoting_style="needed", batch_size=1 << 16
    )
    with path.open("wb") as stream:
        for index, columns in enumerate(blocks):
            if not index:
                stream.write(_header(columns).encode())
            table = pa.table({name: _cells(values) for name, values in columns.items()})
            pyarrow.csv.write_csv(table, stream, options)


def _header(names: Iterable[str]) -> str:
    """Return the header line; Arrow would quote all names."""
    line = io.StringIO()
    cells = (spreadsheet_text(without_controls(name)) for name in names)
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cells(values: Array | Sequence[str]) -> Any:  # noqa: ANN401
    if not isinstance(values, np.ndarray):
        return _spreadsheet_texts(pa.array(values, pa.string()))
    if values.ndim == 2:
        flat = pc.cast(pa.array(np.ascontiguousarray(values).reshape(-1)), pa.string())
        if values.dtype.kind == "f":
            integral = pc.invert(pc.match_substring_regex(flat, "[.a-z]"))
            flat = pc.if_else(integral, pc.binary_join_element_wise(flat, "0", "."), flat)
        starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
        cells = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), flat), ",")
        return pc.binary_join_element_wise(cells, "", ",") if values.shape[1] == 1 else cells
    cells = pa.array(values, from_pandas=True)
    return _spreadsheet_texts(cells) if pa.types.is_string(cells.type) else cells


def _spreadsheet_texts(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts as `without_controls` and `spreadsheet_text` do."""
    controls = pc.match_substring_regex(texts, CONTROL)
    if pc.any(controls).as_py():
        escaped = [without_controls(text) for text in texts.filter(controls).to_pylist()]
        texts = pc.replace_with_mask(texts, pc.fill_null(controls, False), pa.array(escaped))  # noqa: FBT003
    formulas = pc.and_not(
        pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER)
    )
    if not pc.any(formulas).as_py():
        return texts
    return pc.if_else(formulas, pc.binary_join_element_wise("'", texts, ""), texts)
