"""Tables of results as CSV or Parquet files, written block by block."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsx.errors import UsageError
from gsx.ragged import Array
from gsx.storage.artifacts.atomic_files import fsync_directory, fsync_file, translate_os_errors
from gsx.storage.sharing.atomic_directory import require_file_target
from gsx.storage.sharing.csv_file import Columns, write_csv

Writer = Callable[[Path, Iterable[Columns]], None]


def write_parquet_table(path: Path, blocks: Iterable[Columns]) -> None:
    """Write consecutive blocks of rows as Parquet; NaN and missing values become nulls."""
    writer: pq.ParquetWriter | None = None
    try:
        for columns in blocks:
            table = pa.table({name: _column(values) for name, values in columns.items()})
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


WRITERS: Mapping[str, Writer] = {".csv": write_csv, ".parquet": write_parquet_table}
"""Suffix of a file → function that writes it."""


def check_table_target(path: Path) -> None:
    """Raise an error unless a table can be written to ``path``, as far as its name shows."""
    if path.suffix.lower() not in WRITERS:
        raise UsageError(f"{path} ends in neither .csv nor .parquet. Choose such a file name.")
    require_file_target(path)


def write_table_file(path: Path, blocks: Iterable[Columns]) -> None:
    """Write blocks of rows to a file, whose suffix selects the format, completely or not at all."""
    check_table_target(path)
    consequence = "Nothing was written there."
    with translate_os_errors(str(path), consequence=consequence, option="--out FILE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            WRITERS[path.suffix.lower()](temporary, blocks)
            fsync_file(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_directory(path.parent)


def csv_lines(blocks: Iterable[Columns]) -> Iterator[str]:
    """Yield the lines of a CSV file, without line breaks, after all blocks exist."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_csv(path, blocks)
        with path.open(encoding="utf-8", newline="") as stream:
            for line in stream:
                yield line.rstrip("\n")


def table_rows(blocks: Iterable[Columns]) -> list[dict[str, Any]]:
    """Return the rows as dictionaries of plain values; NaN becomes None."""
    rows: list[dict[str, Any]] = []
    for columns in blocks:
        lists = [_column(values).to_pylist() for values in columns.values()]
        rows += [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    return rows


def _column(values: Array | Sequence[str]) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values, from_pandas=True)
    return pa.array(values, pa.string())
