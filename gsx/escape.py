r"""Escape text of unknown origin for the format in which it is written.

Names, descriptions and warnings may come from a corpus of an unknown author. Every function returns
one line without control characters: they are shown as escapes such as ``\x1b``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

MAX_NAME_LENGTH = 100
"""Longest column or property name that is written to a table or a molecule."""
FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""Beginning of a cell that spreadsheets run as a formula: also = + - @ in full width."""
CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
"""Characters that control a terminal or the direction of text, except tabs and line feeds."""
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
"""Number that begins like a formula and is none."""
_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")
_BLOCK_START = re.compile(r"^(?:(?=[#+\-=>])|(\d+)(?=[.)]))")
_LATEX = {letter: f"\\{letter}" for letter in "&%_#${}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_PLAIN_YAML = re.compile(r"[A-Za-z][A-Za-z0-9_./*<-]*|[0-9]+[A-Z]?<[A-Za-z0-9<]+")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#@]*(?:@[^\s/?#@]*)*@")
_QUERY = re.compile(r"(\w://[^\s?#]*[?#])(\S+)")
_QUERY_VALUE = re.compile(r"=[^&#\s'\")\]>]+")


def printable(text: str) -> str:
    """Return one line in which no character controls the terminal or the direction of text."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def redact_urls(text: str) -> str:
    """Return text whose URLs contain neither user names, passwords nor values of parameters."""
    if "://" not in text:
        return text
    text = _CREDENTIALS.sub("***@", text)
    return _QUERY.sub(lambda match: match[1] + _QUERY_VALUE.sub("=***", match[2]), text)


def one_line(text: str) -> str:
    """Return printable text with every run of white space replaced by one space."""
    return printable(" ".join(text.split()))


def markdown_text(text: str) -> str:
    """Return text for a Markdown paragraph, heading, list item or table cell."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", one_line(text)).replace("<", "&lt;")
    return _BLOCK_START.sub(r"\1\\", escaped)


def markdown_code(text: str) -> str:
    """Return a Markdown code span, also for a table cell."""
    line = one_line(text).replace("|", "¦")  # a table ends its cell at | even inside of code
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line[:1] in ("", "`") or line[-1:] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def latex_text(text: str) -> str:
    """Return text for a LaTeX document."""
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def yaml_document(fields: Mapping[str, object]) -> str:
    """Return a YAML mapping in block style. Text is quoted unless it is a plain word."""
    return "".join(f"{line}\n" for line in _yaml_lines(fields))


def _yaml_lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            if isinstance(item, Mapping | list) and item:
                yield f"{_yaml_scalar(key)}:"
                indent = "  " if isinstance(item, Mapping) else ""
                yield from (indent + line for line in _yaml_lines(item))
            else:
                yield f"{_yaml_scalar(key)}: {_yaml_scalar(item)}"
    elif isinstance(value, list) and value:
        for item in value:
            for number, line in enumerate(_yaml_lines(item)):
                yield f"{'  ' if number else '- '}{line}"
    else:
        yield _yaml_scalar(value)


def _yaml_scalar(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN_YAML.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    return "".join(
        character if character.isprintable() else _yaml_escape(ord(character))
        for character in json.dumps(value, ensure_ascii=False)
    )


def _yaml_escape(code: int) -> str:
    if 0xD800 <= code < 0xE000:  # half of a pair: no character
        code = 0xFFFD
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def spreadsheet_text(text: str) -> str:
    """Return text that spreadsheets do not run: an apostrophe precedes what begins a formula.

    >>> spreadsheet_text("=1+1"), spreadsheet_text("-1.5"), spreadsheet_text("a = b")
    ("'=1+1", '-1.5', 'a = b')
    """
    return f"'{text}" if re.match(FORMULA, text) and not re.fullmatch(NUMBER, text) else text


def without_controls(text: str) -> str:
    r"""Return text with escapes such as ``\x1b`` in place of `CONTROL` characters."""
    return re.sub(CONTROL, lambda match: printable(match[0]), text)


def column_names(names: Iterable[str], taken: Iterable[str] = (), prefix: str = "") -> list[str]:
    """Return distinct names of table columns: ``prefix``, then letters, digits and underscores.

    Numbers are appended to names that are repeated or ``taken``.
    """
    cleaned = (re.sub(r"\W", "_", name) for name in names)
    return _distinct((f"{prefix}{name}" for name in cleaned), taken)


def sdf_property_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return distinct names of SDF data items: one line without ``<`` and ``>``.

    Names with a leading underscore are private to RDKit, so ``y`` is put before it.
    """
    cleaned = (re.sub(r"[<>]", "_", one_line(name)) for name in names)
    return _distinct((f"y{name}" if name[:1] in ("", "_") else name for name in cleaned), taken)


def _distinct(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    used, distinct = set(taken), list[str]()
    for name in names:
        candidate, number = name[:MAX_NAME_LENGTH] or "_", 1
        while candidate in used:
            number += 1
            candidate = f"{name[:MAX_NAME_LENGTH] or '_'}_{number}"
        used.add(candidate)
        distinct.append(candidate)
    return distinct


def folder_name(name: str, default: str) -> str:
    """Return ``name`` if every file system accepts it as a name, else ``default``."""
    reserved = re.fullmatch(r"(?i)con|prn|aux|nul|com\d|lpt\d", name)
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name)
    return name if plain and not reserved else default
