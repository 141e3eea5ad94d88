"""How results look: as text, as HTML in notebooks, as data frames, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, overload

from gsx.escape import printable, redact_urls
from gsx.frames import frame_of_rows
from gsx.text_table import format_cell, format_table

if TYPE_CHECKING:
    import pandas

TableRows = Sequence[Sequence[object]]


class Result:
    """Base of results that print as a heading, a table and remarks."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values: what the command prints with `--json`."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame."""
        return frame_of_rows(self._records())

    def __repr__(self) -> str:
        head, remarks = self._lines()
        rows, headers = self._table()
        table = format_table(rows, headers) if rows else []
        lines = [*head, *table, *remarks]
        return "\n".join(printable(redact_urls(line)) for line in lines)

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        head, remarks = self._lines()
        rows, headers = self._table()
        return html_view(head, rows, headers, remarks)

    def _lines(self) -> tuple[list[str], list[str]]:
        """Return the lines above and below the table."""
        return [], []

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        """Return the rows and headers of the table."""
        raise NotImplementedError

    def _records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the data frame."""
        raise NotImplementedError


class Rows(Result, Sequence[Mapping[str, Any]]):
    """A list of rows, each a dictionary, that prints as a table.

    Examples
    --------
    >>> import gsx
    >>> gsx.datasets()[0]["name"]
    'motif-size'
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        table: TableRows,
        headers: Sequence[str],
        remarks: Sequence[str] = (),
    ) -> None:
        self._rows = [dict(row) for row in rows]
        self._shown = table
        self._headers = headers
        self._remarks = list(remarks)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or a list of rows."""
        return self._rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values."""
        return {"rows": list(self)}

    def _lines(self) -> tuple[list[str], list[str]]:
        return [], self._remarks if self._shown else ["nothing to list", *self._remarks]

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        return self._shown, self._headers

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return self._rows


def html_view(
    head: Sequence[str], rows: TableRows, headers: Sequence[str], remarks: Sequence[str]
) -> str:
    """Return lines, a table and lines as HTML; all text is escaped."""

    def lines(texts: Sequence[str]) -> str:
        return "".join(f"<div>{_html(text)}</div>" for text in texts)

    table = ""
    if rows:
        titles = "".join(f"<th>{_html(name.lower())}</th>" for name in headers)
        body = "".join(
            f"<tr>{''.join(f'<td>{_html(format_cell(value))}</td>' for value in row)}</tr>"
            for row in rows
        )
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{lines(head)}{table}{lines(remarks)}</div>"


def _html(text: str) -> str:
    return escape(printable(redact_urls(text)))
