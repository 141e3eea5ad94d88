"""Rules for names and texts that come from files of other people.

Column names become file names, PyG attributes and Arrow fields, so they are short ASCII words.
Other names are free text for people: bounded, normalized, and without characters that change how
the text around them is displayed.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

from gsx.errors import SchemaError

MAX_COLUMNS = 512
"""Columns of a corpus."""
MAX_NAME = 4_096
"""Characters in the name of a dataset, domain, environment or feature."""
MAX_TEXT = 65_536
"""Characters in a description, a licence, a citation or the name of a class or domain value."""
RESERVED_COLUMNS = frozenset(
    {
        *("node_ptr", "edge_ptr", "num_nodes", "num_edges", "c", "zarr.json"),
        *("x", "edge_index", "batch", "ptr", "num_graphs"),
        *("con", "prn", "aux", "nul"),
    }
)
"""Names that file formats, PyG or operating systems use for something else, in lower case."""

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}(\.[A-Za-z][A-Za-z0-9_]{0,63})?")
_CONTROL = (
    "\x00-\x09\x0b-\x1f\x7f-\x9f"  # control characters, except the line feed
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # breaks, embedded and overridden directions
    "\ud800-\udfff\ufeff\ufff9-\ufffb"  # surrogates, byte order marks, annotations
)
_FORBIDDEN = re.compile(f"[{_CONTROL}]")
_FORBIDDEN_OR_BREAK = re.compile(f"[{_CONTROL}\n]")


def check_column_names(names: Sequence[str]) -> None:
    """Raise SchemaError unless all names are valid, not reserved, and differ in more than case."""
    if len(names) > MAX_COLUMNS:
        raise SchemaError(
            f"the schema has {len(names)} columns; a corpus has at most {MAX_COLUMNS}"
        )
    known: set[str] = set()
    for name in names:
        check_column_name(name)
        lower = name.lower()
        if lower in RESERVED_COLUMNS or lower.endswith(".ptr"):
            raise SchemaError(f"`{name}` is a reserved name and cannot be a column. Rename it.")
        if lower in known:
            raise SchemaError(f"column `{name}` is listed twice; case does not distinguish names")
        known.add(lower)
    for name in known:
        head, _, tail = name.partition(".")
        if tail and head in known:
            raise SchemaError(f"column `{head}` cannot have the fields of `{name}`. Rename one.")


def check_column_name(name: str) -> None:
    """Raise SchemaError unless ``name`` is an ASCII word, optionally with a tail after a dot."""
    if not _COLUMN.fullmatch(name):
        raise SchemaError(
            f"{shown(name)} is not a column name. Use up to 64 letters, digits and `_`, starting "
            "with a letter, and at most one tail after a dot."
        )


def check_texts(
    what: str, texts: Iterable[str], limit: int = MAX_NAME, *, lines: bool = False
) -> None:
    """Raise SchemaError for the first text that is too long or not plain; ``what`` names it.

    With ``lines`` texts may have several lines.
    """
    listed = list(texts)
    longest = max(map(len, listed), default=0)
    if longest <= limit and name_problem(" ".join(listed), sys.maxsize, lines=lines) is None:
        return
    for text in listed:
        problem = name_problem(text, limit, lines=lines)
        if problem:
            raise SchemaError(f"{what} {shown(text)} {problem}")


def name_problem(text: str, limit: int = MAX_NAME, *, lines: bool = False) -> str | None:
    """Return why a text cannot be a name, as the end of a sentence; None if it can."""
    if len(text) > limit:
        return f"has {len(text):,} characters; the limit is {limit:,}. Shorten it."
    match = (_FORBIDDEN if lines else _FORBIDDEN_OR_BREAK).search(text)
    if match is not None:
        character = f"U+{ord(match[0]):04X}"
        hint = " The file may be UTF-16: save it as UTF-8." if match[0] == "\0" else " Remove it."
        return f"contains the control character {character}.{hint}"
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        return "is not in Unicode normalization form C. Normalize the file to NFC."
    return None


def shown(text: str, length: int = 60) -> str:
    """Return ``text`` between backticks, shortened; escape what is not plainly visible."""
    visible = "".join(
        ascii(character)[1:-1]
        if not character.isprintable() or unicodedata.combining(character)
        else character
        for character in text[:length]
    )
    return f"`{visible}{'…' if len(text) > length else ''}`"
