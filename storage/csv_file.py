"""Plain tables of text: one header, one row per item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from gsx.ragged import Array


def write_csv(path: Path, columns: Mapping[str, Array | Sequence[str]]) -> None:
    """Write columns of equal length as CSV (RFC 4180, UTF-8); only text is quoted."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as stream:
        stream.write((",".join(columns) + "\n").encode())  # Arrow would quote every name
        pyarrow.csv.write_csv(table, stream, options)
