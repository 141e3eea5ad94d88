"""Read CSV and TSV tables from users, plain or gzipped, with precise error messages."""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from gsx.errors import InputError, StageError, did_you_mean
from gsx.limits import COLUMNS, ROW_CHARACTERS, ROWS
from gsx.names import name_problem, shown
from gsx.ragged import Array, Ints
from gsx.schema import SPLITS
from gsx.stages.prepare.readers.limits import row_limit
from gsx.stages.prepare.readers.names import check_name
from gsx.stages.prepare.readers.raw_files import READ_ERRORS, open_unpacked, read_raw_file

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""Spellings of a missing value, in lower case."""
_MAX_NUMBER = 1e300
_INTEGER = re.compile(r"-?[0-9]{1,18}")
"""An integer that fits in 64 bits, without the other spellings that ``int`` accepts."""
SPLIT_NAMES = {
    **{name: number for number, name in enumerate(SPLITS[:5])},
    "val": SPLITS.index("ood_val"),
    "valid": SPLITS.index("ood_val"),
    "validation": SPLITS.index("ood_val"),
    "test": SPLITS.index("ood_test"),
}
"""Name of a split in a column → code of the split."""
_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A dictionary-encoded column: distinct values, and the code of every row."""

    values: Sequence[int] | Sequence[float] | Sequence[str]
    code: Ints
    """``[n]`` index into ``values`` of every row."""

    @property
    def cells(self) -> list[int] | list[float] | list[str]:
        """The value of every row."""
        return [self.values[index] for index in self.code.tolist()]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows all have the length of its header."""

    name: str
    """Name of the file in error messages."""
    header: list[str]
    count: int
    """Number of rows."""
    rows: Callable[[], Iterator[list[str]]]
    """Return a new iterator over all rows, from memory or from disk."""

    def cells(self, name: str, hint: str = "") -> Iterator[str]:
        """Yield the cells of a column; ``hint`` ends the error message for a missing column."""
        index = self._column_index(name, hint)
        return (row[index] for row in self.rows())

    def column(self, name: str, hint: str = "") -> list[str]:
        """Return the cells of a column; ``hint`` ends the error message for a missing column."""
        return list(self.cells(name, hint))

    def keys(self, name: str) -> CodedColumn:
        """Return a column as integers, as floats or, if a cell is not a number, as text."""
        code_of: dict[str, int] = {}
        code = array("q")
        for row, cell in enumerate(self.cells(name)):
            text = cell.strip()
            if text.lower() in MISSING:
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{text}`, but every row needs a domain. "
                    "Fill or remove this row."
                )
            code.append(code_of.setdefault(text, len(code_of)))
        values = parse_cells(list(code_of))
        for index, value in enumerate(values):
            if isinstance(value, int | float) and not -_MAX_NUMBER < value < _MAX_NUMBER:
                row, text = code.index(index), list(code_of)[index]
                raise StageError(
                    f"{self.name}, row {row}: {name} is `{text[:40]}`, which is too large (the "
                    f"limit is {_MAX_NUMBER:g})."
                )
            if isinstance(value, str) and name_problem(value):
                check_name(value, f"{self.name}, row {code.index(index)}: {name}")
        return CodedColumn(values, np.array(code, dtype=np.int64))

    def splits(self, name: str) -> Ints:
        """Return the codes ``[n]`` of the splits in a column."""
        return split_codes(self.cells(name), name, self.name)

    def numbers(self, name: str) -> Array:
        """Return the numbers ``[n]`` of a column, NaN if missing."""
        numbers = array("d")
        for row, cell in enumerate(self.cells(name)):
            text = cell.strip()
            if text.lower() in MISSING:
                numbers.append(math.nan)
                continue
            try:
                numbers.append(float(text))
            except ValueError:
                raise StageError(
                    f"{self.name}, row {row}: {name} is {shown(cell)}; expected a number or an "
                    "empty cell. Classes as text need a single target and `--task classification`."
                ) from None
            if math.isinf(numbers[-1]):
                raise StageError(
                    f"{self.name}, row {row}: {name} is infinite; expected a finite number or an "
                    "empty cell."
                )
        return np.array(numbers, dtype=np.float64)

    def _column_index(self, name: str, hint: str) -> int:
        """Return the index of a column in the header."""
        if name not in self.header:
            same = [column for column in self.header if column.lower() == name.lower()]
            guess = did_you_mean(name, self.header) if not hint else ""
            guess = f"Did you mean `{same[0]}`?" if same else guess
            more = [text.strip() for text in (guess, hint) if text and not text.startswith("Known")]
            header = ",".join(self.header[:20]) + (",…" if len(self.header) > 20 else "")
            raise InputError(
                f"{self.name} has no column {shown(name)}; its header is "
                f"{' '.join([f'`{header}`.', *more])}"
            )
        return self.header.index(name)


def split_codes(cells: Iterable[object], column: str, where: str) -> Ints:
    """Return the codes ``[n]`` of split names; ``where`` denotes the file in error messages."""
    codes = array("q")
    for row, cell in enumerate(cells):
        code = SPLIT_NAMES.get(str(cell).strip().lower())
        if code is None:
            names = ", ".join(SPLIT_NAMES)
            raise StageError(
                f"{where}, row {row}: {column} is {shown(str(cell))}; expected one of {names}."
            )
        codes.append(code)
    return np.array(codes, dtype=np.int64)


def parse_cells(cells: list[str]) -> list[int] | list[float] | list[str]:
    """Return cells as integers, as floats or, if a cell is not a number, unchanged."""
    for parse in (int, float):
        try:
            return [parse(cell) for cell in cells]
        except ValueError:
            continue
    return cells


def read_bytes(path: Path, name: str) -> bytes:
    """Return the bytes of a UTF-8 text file, decompressed if ``name`` ends in ``.gz``."""
    data = read_raw_file(path, name)
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StageError(_encoding_message(path, name, error)) from error
    return data


def _encoding_message(path: Path, name: str, error: UnicodeDecodeError) -> str:
    """Return the message for a file that is not UTF-8."""
    if bytes(error.object[:4]) == b"PK\x03\x04":
        return (
            f"{name} is a ZIP archive (or a spreadsheet), not a table of text. Unpack it or save "
            "it as CSV; a TU dataset needs `--tu`."
        )
    if bytes(error.object[:2]) in (b"\xff\xfe", b"\xfe\xff"):
        return f"{name} is UTF-16. Save the file as UTF-8."
    with open_unpacked(path, name) as stream:
        lines = iter(lambda: stream.readline(ROW_CHARACTERS.value), b"")
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as line_error:
                byte = line[line_error.start]
                return (
                    f"{name}, line {number}: invalid UTF-8 byte 0x{byte:02x}. Save the file as "
                    "UTF-8."
                )
    return f"{name} is not valid UTF-8: {error.reason}. Save the file as UTF-8."


def parse_integers(cells: Sequence[str], name: str, column: str) -> Ints:
    """Return a column ``[n]`` as integers; ``name`` denotes its file in error messages."""
    for row, cell in enumerate(cells):
        if _INTEGER.fullmatch(cell) is None:
            raise StageError(f"{name}, row {row}: {column} is {shown(cell)}; expected an integer.")
    return np.array(cells, dtype=str).astype(np.int64)


def read_table(path: Path, name: str, what: str = "a table with a header") -> Table:
    """Read a table into memory; errors call it ``name`` and describe its content as ``what``."""
    checked = _checked(path, name, what)
    header, rows = next(checked), list(checked)
    return Table(name, header, len(rows), rows.__iter__)


def open_table(path: Path, name: str, what: str = "a table with a header") -> Table:
    """Check a table that may not fit in memory; its rows are read from disk on every use."""
    checked = _checked(path, name, what)
    header, count = next(checked), sum(1 for _ in checked)
    return Table(name, header, count, lambda: _rows(path, name))


def _checked(path: Path, name: str, what: str) -> Iterator[list[str]]:
    """Yield the header and the rows; reject a table without rows or with rows of other length."""
    rows = _lines(path, name)
    first = next(rows, None)
    if first is None:
        raise StageError(f"{name} is empty; expected {what}.")
    header = [cell.strip() for cell in first[1]]
    _check_header(header, name, _delimiter(name))
    yield header
    number, limit = -1, row_limit(path.stat().st_size)
    for number, (line, row) in enumerate(rows):
        if number >= limit:
            raise StageError(
                f"{name} has more than {limit:,} rows, the limit for a compressed file of its "
                f"size. Unpack it yourself if you trust it. {ROWS.advice}"
            )
        if len(row) != len(header):
            raise StageError(
                f"{name}, row {number} (line {line}): {len(row)} fields; the header has "
                f"{len(header)}."
            )
        yield row
    if number < 0:
        raise StageError(f"{name} has a header but no rows.")


def _rows(path: Path, name: str) -> Iterator[list[str]]:
    """Yield the rows below the header."""
    return (row for _, row in islice(_lines(path, name), 1, None))


def _lines(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the fields of every row that is not blank."""
    line = 1
    try:
        with io.TextIOWrapper(open_unpacked(path, name), encoding="utf-8-sig", newline="") as text:
            lines = _RowLines(text, name)
            rows = csv.reader(lines, delimiter=_delimiter(name), strict=True)
            for row in rows:
                if row:
                    yield line, row
                    lines.remaining = lines.limit
                line = rows.line_num + 1
    except csv.Error as error:
        raise StageError(
            f"{name} is not valid CSV: {error}, in the row that starts at line {line}. Check that "
            'every quote (`"`) in it is closed.'
        ) from error
    except UnicodeDecodeError as error:
        raise StageError(_encoding_message(path, name, error)) from error
    except READ_ERRORS as error:
        raise StageError(f"{name} cannot be read: {error}") from error


class _RowLines:
    """Lines of a text file, with a limit on the characters of one row, which may be several lines.

    ``remaining`` is the number of characters that the current row may still have.
    """

    def __init__(self, text: io.TextIOWrapper, name: str) -> None:
        self._readline = text.readline
        self._name = name
        self.limit = self.remaining = ROW_CHARACTERS.value

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._readline(self.remaining + 1)
        if not line:
            raise StopIteration
        self.remaining -= len(line)
        if self.remaining < 0:
            raise StageError(
                f"{self._name}: a row, with the blank lines before it, has more than "
                f'{self.limit:,} characters. Check that every quote (`"`) in it is closed. '
                f"{ROW_CHARACTERS.advice}"
            )
        return line


def _delimiter(name: str) -> str:
    return "\t" if name.removesuffix(".gz").endswith(".tsv") else ","


_EXPECTED_DELIMITER = {
    ",": "commas (and tabs in files that end in `.tsv`)",
    "\t": "tabs in files that end in `.tsv`, and commas in others",
}


def _check_header(header: list[str], name: str, delimiter: str) -> None:
    """Reject a header with another delimiter, too many columns, invalid or repeated names."""
    if len(header) > COLUMNS.value:
        raise StageError(
            f"{name}: the header has {len(header):,} columns; the limit is {COLUMNS.value:,}. "
            f"{COLUMNS.advice}"
        )
    for number, cell in enumerate(header, start=1):
        check_name(cell, f"{name}: column {number} of the header,")
    if len(header) == 1:
        for other, word in _DELIMITERS.items():
            if other != delimiter and other in header[0]:
                raise StageError(
                    f"{name}: the header {shown(header[0])} is a single field. It seems to be "
                    f"separated by {word}; gsx expects {_EXPECTED_DELIMITER[delimiter]}."
                )
    repeated = sorted(cell for cell, count in Counter(header).items() if count > 1)
    if repeated:
        raise StageError(
            f"{name}: the column {shown(repeated[0])} occurs more than once in the header. Rename "
            "it."
        )
