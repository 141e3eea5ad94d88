"""Read tables of text that users bring: CSV, plain or gzipped, and what can be wrong with them."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsx.columns import SPLITS
from gsx.errors import StageError, nearest
from gsx.ragged import Array, Ints

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""Words for a value that is not known, in lower case."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A whole number that fits in 64 bits, and nothing that only looks like one."""
SPLIT_WORDS = {
    **{name: number for number, name in enumerate(SPLITS[:5])},
    "val": SPLITS.index("ood_val"),
    "valid": SPLITS.index("ood_val"),
    "validation": SPLITS.index("ood_val"),
    "test": SPLITS.index("ood_test"),
}
"""What a column may call splits."""
_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file, all as long as its header."""

    name: str
    """Stands for the file in errors."""
    header: list[str]
    rows: list[list[str]]

    def column(self, name: str, hint: str = "") -> list[str]:
        """Return the cells of a column; ``hint`` ends the error when there is none."""
        if name not in self.header:
            guess = nearest(name, self.header)
            more = hint or (f" {guess}" if guess.startswith("Did") else "")
            header = ",".join(self.header)
            raise StageError(f"{self.name} has no column `{name}`; its header is `{header}`.{more}")
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def keys(self, name: str) -> list[int] | list[float] | list[str]:
        """Return a column as whole numbers, as numbers or, if one cell is neither, as text."""
        cells = [cell.strip() for cell in self.column(name)]
        for row, cell in enumerate(cells):
            if cell.lower() in MISSING:
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{cell}`; every row needs a domain."
                )
        return sortable(cells)

    def splits(self, name: str) -> Ints:
        """Return the splits that a column names, as codes ``[n]``."""
        return split_codes(self.column(name), name, self.name)

    def numbers(self, name: str) -> Array:
        """Return the numbers of a column ``[n]``, NaN where nothing is known."""
        found = np.full(len(self.rows), np.nan)
        for row, cell in enumerate(self.column(name)):
            text = cell.strip()
            if text.lower() in MISSING:
                continue
            try:
                found[row] = float(text)
            except ValueError:
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{cell}`; expected a number or nothing."
                ) from None
            if np.isinf(found[row]):
                raise StageError(f"{self.name}, row {row}: {name} is infinite.")
        return found


def split_codes(cells: Sequence[object], column: str, where: str) -> Ints:
    """Return the splits that words name, as codes ``[n]``; ``where`` stands for the file."""
    found = []
    for row, cell in enumerate(cells):
        code = SPLIT_WORDS.get(str(cell).strip().lower())
        if code is None:
            known = ", ".join(SPLIT_WORDS)
            raise StageError(f"{where}, row {row}: {column} is `{cell}`; expected one of {known}.")
        found.append(code)
    return np.array(found, dtype=np.int64)


def sortable(cells: list[str]) -> list[int] | list[float] | list[str]:
    """Return cells as whole numbers, as numbers or, if one is neither, as they are."""
    for read in (int, float):
        try:
            return [read(cell) for cell in cells]
        except ValueError:
            continue
    return cells


def read_bytes(path: Path, name: str) -> bytes:
    """Return the bytes of a text file, unpacked where its name ends in ``.gz``."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
        data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise StageError(f"{name} cannot be read: {error}") from error
    return data


def whole_numbers(cells: Sequence[str], name: str, column: str) -> Ints:
    """Return the whole numbers of a column ``[n]``; ``name`` stands for its file in errors."""
    for row, cell in enumerate(cells):
        if _WHOLE.fullmatch(cell) is None:
            raise StageError(f"{name}, row {row}: {column} is `{cell}`; expected a whole number.")
    return np.array(cells, dtype=str).astype(np.int64)


def read_table(path: Path, name: str, what: str = "a table with a header") -> Table:
    """Read a table; ``name`` stands for it in errors and ``what`` says what it should be."""
    text = read_bytes(path, name).decode("utf-8-sig")
    sign = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
    try:
        lines = [row for row in csv.reader(io.StringIO(text), delimiter=sign, strict=True) if row]
    except csv.Error as error:
        raise StageError(f"{name} is no CSV: {error}") from error
    if not lines:
        raise StageError(f"{name} is empty; it should be {what}.")
    header, *rows = lines
    header = [cell.strip() for cell in header]
    _check_header(header, name, sign)
    if not rows:
        raise StageError(f"{name} has a header and no rows.")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise StageError(
                f"{name}, row {number}: {len(row)} fields; the header has {len(header)}."
            )
    return Table(name, header, rows)


def _check_header(header: list[str], name: str, sign: str) -> None:
    if len(header) == 1:
        for other, word in _DELIMITERS.items():
            if other != sign and other in header[0]:
                raise StageError(
                    f"{name}: the header `{header[0]}` is one field. Its fields seem to be parted "
                    f"by {word}; gsx reads {_DELIMITERS[sign]} (and tabs where the name ends in "
                    "`.tsv`)."
                )
    again = sorted({cell for cell in header if header.count(cell) > 1})
    if again:
        raise StageError(f"{name}: the column `{again[0]}` stands more than once in the header.")
