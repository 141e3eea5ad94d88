"""HTML of catalog pages. All text of artifacts is escaped, because its author may be unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from gsx import __version__
from gsx.escape import printable

POLICY = (
    "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file:; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
"""No page may request anything but the CSS file and the scripts of the catalog."""
MAX_NOWRAP = 30
"""Longest text of a table cell that is not wrapped."""


class Markup(str):
    """HTML whose texts are already escaped."""

    __slots__ = ()


def link(url: str, text: str, *, code: bool = False) -> Markup:
    """Return a link; the URL is a relative path."""
    label = f"<code>{escape(text)}</code>" if code else escape(text)
    return Markup(f'<a href="{escape(url)}">{label}</a>')


def code(text: str) -> Markup:
    """Return text in a fixed-width font."""
    return Markup(f"<code>{escape(text)}</code>")


def prose(text: str) -> Markup:
    """Return text in which backquotes mark code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))


def tag(text: str, kind: str = "") -> str:
    """Return a label with a border."""
    return f'<span class="tag {kind}">{escape(text)}</span>'


def snippet(title: str, language: str, text: str) -> str:
    """Return a block of code with a title."""
    return (
        f"<h3 class=part>{escape(title)}</h3>"
        f'<pre class="snippet" tabindex="0" aria-label="{escape(title)}"><code '
        f'class="{escape(language)}">{escape(text)}</code></pre>'
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """Return a table that scrolls on narrow screens; columns of numbers are aligned right."""
    body = [list(row) for row in rows]
    numeric = [
        bool(body)
        and all(row[i] is None or isinstance(row[i], int | float) for row in body)
        and any(row[i] is not None for row in body)
        for i in range(len(headers))
    ]
    head = "".join(
        f"<th scope=col{' class=num' if right else ''}>{escape(name)}"
        for name, right in zip(headers, numeric, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=num' if right else _wrap(value)}>{cell(value)}"
            for value, right in zip(row, numeric, strict=True)
        )
        for row in body
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><thead><tr>{head}</thead><tbody>{lines}</tbody></table></div>"
    )


def _wrap(value: object) -> str:
    is_long = isinstance(value, str) and not isinstance(value, Markup) and len(value) > MAX_NOWRAP
    return " class=wrap" if is_long else ""


def cell(value: object) -> str:
    """Return the content of a table cell."""
    if value is None:
        return "-"
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return escape(str(value))


def details(title: str, *contents: str) -> str:
    """Return contents that are folded under a title."""
    return f"<details><summary>{escape(title)}</summary>{''.join(contents)}</details>"


def shorten(text: str, limit: int) -> str:
    """Return text with at most ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def format_value(value: object) -> str:
    """Return the value of an option as text."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def format_options(options: Mapping[str, Any]) -> str:
    """Return options as one line of names and values."""
    return " ".join(f"{name}={format_value(value)}" for name, value in options.items())


def page(
    title: str, header: str, main: str, *, root: str = "", scripts: Sequence[str] = ()
) -> bytes:
    """Return a page; ``root`` is the relative path of the directory of the catalog."""
    tags = "".join(f'<script defer src="{root}{name}"></script>' for name in scripts)
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{root}style.css">{tags}</head><body>'
        f'<a class="skip" href="#main">Skip to content</a><header>{header}</header>'
        f'<main id="main">{main}</main>'
        f"<footer><p>Written by gsx {escape(__version__)}. This site is self-contained: its pages "
        "load nothing from other addresses.</p></footer></body></html>\n"
    )
    return "\n".join(map(printable, text.split("\n"))).encode("utf-8", "replace")


def assets() -> dict[str, bytes]:
    """Return the CSS file, which begins with that of the HTML report, and the script."""
    report = resources.files("gsx.stages.report").joinpath("page.css")
    folder = resources.files("gsx.pipeline.catalog")
    style = report.read_text(encoding="utf-8") + folder.joinpath("catalog.css").read_text("utf-8")
    script = folder.joinpath("catalog.js").read_text(encoding="utf-8")
    return {"style.css": style.encode(), "catalog.js": script.encode()}


def script_data(name: str, value: object) -> bytes:
    r"""Return a script that assigns JSON to a global name.

    The text is ASCII without ``<``, so that it is the same data in every encoding and context.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"window.{name}={text.replace('<', chr(92) + 'u003c')};\n".encode("ascii")
