"""Tables of plain text."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Sequence

from gsx.escape import printable

MAX_CELL_WIDTH = 200
"""Longest text in a cell of a table."""
MIN_WRAPPED_WIDTH = 16
"""Smallest width of a column that is wrapped."""


def format_table(
    rows: Sequence[Sequence[object]], headers: Sequence[str], wrapped: str | None = None
) -> list[str]:
    """Return lines of aligned columns under headers: numbers to the right, text to the left.

    The column ``wrapped`` takes several lines if the table is wider than the terminal.
    """
    cells = [[format_cell(value) for value in row] for row in rows]
    header = [format_cell(name) for name in headers]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(headers))
    ]
    if wrapped in headers:
        index = headers.index(wrapped)
        excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        widths[index] = max(widths[index] - max(excess, 0), min(widths[index], MIN_WRAPPED_WIDTH))
    lines = []
    for line in [header, *cells]:
        parts = [
            textwrap.wrap(text, width) or [""] if name == wrapped else [text]
            for name, text, width in zip(headers, line, widths, strict=True)
        ]
        lines += [
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(cells_of_line, widths, numeric, strict=True)
            ).rstrip()
            for cells_of_line in itertools.zip_longest(*parts, fillvalue="")
        ]
    return lines


def format_cell(value: object) -> str:
    """Return a value as one line of text; None becomes ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = printable(str(value))
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 1]}…"


def format_score(value: float | None) -> str | None:
    """Return a score with two decimals; None stays None."""
    return None if value is None else f"{value:.2f}"


def format_bytes(size: int) -> str:
    """Return a size with a decimal unit, such as ``1.2 MB``."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
