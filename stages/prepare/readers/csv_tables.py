"""Read tables of text that users bring: CSV, plain or gzipped, and what can be wrong with them."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from gsx.errors import StageError, did_you_mean
from gsx.ragged import Array, Ints
from gsx.schema import SPLITS
from gsx.stages.prepare.readers.archives import RATIO, SMALL

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""Words for a value that is not known, in lower case."""
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)
"""What the standard library raises for a file that is no text, or a damaged gzip file."""
_LARGEST = 1e300
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
_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column that has few values, or many: every value once, and which one a row has."""

    values: Sequence[int] | Sequence[float] | Sequence[str]
    code: Ints
    """``[n]`` place in ``values`` of every row."""

    @property
    def cells(self) -> list[int] | list[float] | list[str]:
        """The value of every row."""
        return [self.values[at] for at in self.code.tolist()]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file, all as long as its header."""

    name: str
    """Stands for the file in errors."""
    header: list[str]
    count: int
    """Rows."""
    rows: Callable[[], Iterator[list[str]]]
    """Begins to read all rows, from memory or from disk."""

    def cells(self, name: str, hint: str = "") -> Iterator[str]:
        """Yield the cells of a column; ``hint`` ends the error when there is none."""
        place = self._place(name, hint)
        return (row[place] for row in self.rows())

    def column(self, name: str, hint: str = "") -> list[str]:
        """Return the cells of a column; ``hint`` ends the error when there is none."""
        return list(self.cells(name, hint))

    def keys(self, name: str) -> CodedColumn:
        """Return a column as whole numbers, as numbers or, if one cell is neither, as text."""
        known: dict[str, int] = {}
        code = array("q")
        for row, cell in enumerate(self.cells(name)):
            text = cell.strip()
            if text.lower() in MISSING:
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{text}`; every row needs a domain."
                )
            code.append(known.setdefault(text, len(known)))
        values = sortable(list(known))
        for place, value in enumerate(values):
            if isinstance(value, int | float) and not -_LARGEST < value < _LARGEST:
                row, text = code.index(place), list(known)[place]
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{text[:40]}`, too large a number."
                )
        return CodedColumn(values, np.array(code, dtype=np.int64))

    def splits(self, name: str) -> Ints:
        """Return the splits that a column names, as codes ``[n]``."""
        return split_codes(self.cells(name), name, self.name)

    def numbers(self, name: str) -> Array:
        """Return the numbers of a column ``[n]``, NaN where nothing is known."""
        found = array("d")
        for row, cell in enumerate(self.cells(name)):
            text = cell.strip()
            if text.lower() in MISSING:
                found.append(math.nan)
                continue
            try:
                found.append(float(text))
            except ValueError:
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{cell}`; expected a number or nothing. "
                    "Write classes as whole numbers."
                ) from None
            if math.isinf(found[-1]):
                raise StageError(
                    f"{self.name}, row {row}: {name} is infinite; expected a number or nothing."
                )
        return np.array(found, dtype=np.float64)

    def _place(self, name: str, hint: str) -> int:
        """Return the place of a column in the header."""
        if name not in self.header:
            guess = did_you_mean(name, self.header)
            more = hint or (f" {guess}" if guess.startswith("Did") else "")
            header = ",".join(self.header)
            raise StageError(f"{self.name} has no column `{name}`; its header is `{header}`.{more}")
        return self.header.index(name)


def split_codes(cells: Iterable[object], column: str, where: str) -> Ints:
    """Return the splits that words name, as codes ``[n]``; ``where`` stands for the file."""
    found = array("q")
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
        with _opened(path, name) as stream:
            data = stream.read()
        data.decode("utf-8-sig")
    except _UNREADABLE as error:
        raise StageError(_unreadable(path, name, error)) from error
    return data


def _unreadable(path: Path, name: str, error: Exception) -> str:
    """Say why a file cannot be read as text."""
    if not isinstance(error, UnicodeDecodeError):
        return f"{name} cannot be read: {error}"
    with _opened(path, name) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as found:
                byte = line[found.start]
                return (
                    f"{name}, line {number}: the byte 0x{byte:02x} is no UTF-8. Save it as UTF-8."
                )
    return f"{name} is no UTF-8: {error.reason}. Save it as UTF-8."


def _opened(path: Path, name: str) -> IO[bytes]:
    """Open a file, unpacked where its name ends in ``.gz``, but not without bounds."""
    if not name.endswith(".gz"):
        return path.open("rb")
    return io.BufferedReader(_Unpacked(path, name))


class _Unpacked(io.RawIOBase):
    """What a gzip file unpacks to, as far as a dataset may."""

    def __init__(self, path: Path, name: str) -> None:
        self._stream = gzip.open(path)  # noqa: SIM115
        self._name = name
        self._most = self._left = max(SMALL, RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        read = self._stream.readinto(buffer)
        self._left -= read
        if self._left < 0:
            raise StageError(
                f"{self._name} unpacks to more than {self._most:,} bytes. Unpack it yourself if "
                "you trust it."
            )
        return read

    def close(self) -> None:
        self._stream.close()
        super().close()


def whole_numbers(cells: Sequence[str], name: str, column: str) -> Ints:
    """Return the whole numbers of a column ``[n]``; ``name`` stands for its file in errors."""
    for row, cell in enumerate(cells):
        if _WHOLE.fullmatch(cell) is None:
            raise StageError(f"{name}, row {row}: {column} is `{cell}`; expected a whole number.")
    return np.array(cells, dtype=str).astype(np.int64)


def read_table(path: Path, name: str, what: str = "a table with a header") -> Table:
    """Read a table; ``name`` stands for it in errors and ``what`` says what it should be."""
    checked = _checked(path, name, what)
    header, rows = next(checked), list(checked)
    return Table(name, header, len(rows), rows.__iter__)


def open_table(path: Path, name: str, what: str = "a table with a header") -> Table:
    """Check a table that may be too large for memory and leave it on disk."""
    checked = _checked(path, name, what)
    header, count = next(checked), sum(1 for _ in checked)
    return Table(name, header, count, lambda: _rows(path, name))


def _checked(path: Path, name: str, what: str) -> Iterator[list[str]]:
    """Yield the header and at least one row as long."""
    rows = _lines(path, name)
    first = next(rows, None)
    if first is None:
        raise StageError(f"{name} is empty; it should be {what}.")
    header = [cell.strip() for cell in first[1]]
    _check_header(header, name, _sign(name))
    yield header
    number = -1
    for number, (line, row) in enumerate(rows):
        if len(row) != len(header):
            raise StageError(
                f"{name}, row {number} (line {line}): {len(row)} fields; the header has "
                f"{len(header)}."
            )
        yield row
    if number < 0:
        raise StageError(f"{name} has a header and no rows.")


def _rows(path: Path, name: str) -> Iterator[list[str]]:
    """Yield the rows below the header."""
    return (row for _, row in islice(_lines(path, name), 1, None))


def _lines(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table that are not blank: the line where each begins, and its fields."""
    line = 1
    try:
        with io.TextIOWrapper(_opened(path, name), encoding="utf-8-sig", newline="") as text:
            rows = csv.reader(text, delimiter=_sign(name), strict=True)
            for row in rows:
                if row:
                    yield line, row
                line = rows.line_num + 1
    except csv.Error as error:
        raise StageError(
            f"{name} is no CSV: {error}, in the row that begins at line {line}. See whether every "
            'quote (`"`) there is closed.'
        ) from error
    except _UNREADABLE as error:
        raise StageError(_unreadable(path, name, error)) from error


def _sign(name: str) -> str:
    return "\t" if name.removesuffix(".gz").endswith(".tsv") else ","


_WANTED = {
    ",": "commas (and tabs where the name ends in `.tsv`)",
    "\t": "tabs where the name ends in `.tsv`, else commas",
}


def _check_header(header: list[str], name: str, sign: str) -> None:
    if len(header) == 1:
        for other, word in _DELIMITERS.items():
            if other != sign and other in header[0]:
                raise StageError(
                    f"{name}: the header `{header[0]}` is one field. Its fields seem to be parted "
                    f"by {word}; gsx reads {_WANTED[sign]}."
                )
    again = sorted({cell for cell in header if header.count(cell) > 1})
    if again:
        raise StageError(f"{name}: the column `{again[0]}` stands more than once in the header.")
