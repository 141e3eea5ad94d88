"""CSV files with one header line and one row per item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from gsx.ragged import Array

Columns = Mapping[str, Array | Sequence[str]]
"""Columns of equal length; a row of a two-dimensional column becomes one cell.

Such a cell is a Python tuple literal without parentheses: numbers separated by commas, with a
trailing comma after a single number and a decimal point in floats.
"""


def write_csv(path: Path, blocks: Iterable[Columns]) -> None:
    """Write consecutive blocks of rows as CSV (RFC 4180, UTF-8); only text is quoted.

    NaN becomes an empty cell.
    """
    options = pyarrow.csv.WriteOptions(
        include_header=False, quoting_style="needed", batch_size=1 << 16
    )
    with path.open("wb") as stream:
        for index, columns in enumerate(blocks):
            if not index:
                stream.write((",".join(columns) + "\n").encode())  # Arrow would quote the names
            table = pa.table({name: _cells(values) for name, values in columns.items()})
            pyarrow.csv.write_csv(table, stream, options)


def _cells(values: Array | Sequence[str]) -> Any:  # noqa: ANN401
    if not isinstance(values, np.ndarray):
        return pa.array(values, pa.string())
    if values.ndim == 2:
        flat = pc.cast(pa.array(np.ascontiguousarray(values).reshape(-1)), pa.string())
        if values.dtype.kind == "f":
            integral = pc.invert(pc.match_substring_regex(flat, "[.a-z]"))
            flat = pc.if_else(integral, pc.binary_join_element_wise(flat, "0", "."), flat)
        starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
        cells = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), flat), ",")
        return pc.binary_join_element_wise(cells, "", ",") if values.shape[1] == 1 else cells
    return pa.array(values, from_pandas=True)
