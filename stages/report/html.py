"""HTML elements. All text is escaped, because a corpus can come from an untrusted source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from gsx.escape import printable

MAX_NOWRAP_LENGTH = 30
"""Longest text of a table cell that is not wrapped."""


def tile(figure: str, text: str) -> str:
    """Return a tile with a number and its caption."""
    return f"<li><b>{escape(figure)}</b><span>{escape(text)}</span></li>"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """Return a table that scrolls on narrow screens; numerical columns are right-aligned."""
    body = [list(row) for row in rows]
    numeric = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(headers))]
    head = "".join(
        f'<th scope="col"{_align_class(is_numeric)}>{escape(name)}</th>'
        for name, is_numeric in zip(headers, numeric, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{_align_class(is_numeric) or _wrap_class(value)}>{_cell(value)}</td>"
            for value, is_numeric in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in body
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _align_class(is_numeric: bool) -> str:  # noqa: FBT001
    return ' class="num"' if is_numeric else ""


def _wrap_class(value: object) -> str:
    return ' class="wrap"' if isinstance(value, str) and len(value) > MAX_NOWRAP_LENGTH else ""


def _is_number(value: object) -> bool:
    if isinstance(value, int | float):
        return True
    if value == "-":
        return True
    return isinstance(value, str) and value.lstrip("-+")[:1].isdigit() and not value[-1:].isalpha()


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1f}"
    return escape(str(value))


def figure(chart: str, caption: str, *, title: str = "") -> str:
    """Return a chart with title and caption."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f"<figure>{head}{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def inline(text: str) -> str:
    """Return escaped text; parts between backticks become code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(
        f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)
    )


def section(name: str, title: str, *contents: str) -> str:
    """Return a section with a heading."""
    body = "".join(contents)
    head = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{body}</section>'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; parts of the text between backticks become code."""
    return f'<p class="{kind}">{inline(text)}</p>' if kind else f"<p>{inline(text)}</p>"


def document(title: str, header: str, main: str, footer: str) -> str:
    """Return the page with inline style and script; its policy forbids requests."""
    folder = resources.files("gsx.stages.report")
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style>'
        f"</head><body><header>{header}</header><main>{main}</main><footer>{footer}</footer>"
        f"<script>{script}</script></body></html>\n"
    )
    # Names may contain characters that control terminals or reverse the direction of text.
    return page if page.isprintable() else "\n".join(map(printable, page.split("\n")))
