"""Targets in a table: columns by name or pattern, as numbers or as text classes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from gsx.errors import StageError
from gsx.names import shown
from gsx.ragged import Array
from gsx.stages.prepare.readers.csv_tables import MISSING, Table
from gsx.stages.prepare.readers.names import check_name
from gsx.stages.prepare.targets import MAX_CLASSES, TaskOption

ALL = "all"
"""Selects all columns without another role."""
_EXCLUDE = "!"


@dataclass(frozen=True, slots=True, eq=False)
class TargetColumns:
    """Targets of all rows."""

    names: tuple[str, ...]
    values: Array
    """``[n, T]`` numbers, or the codes of text classes; NaN if missing."""
    classes: tuple[str, ...] = ()
    """Names of the classes in the order of their codes; empty for numbers."""


def read_targets(
    table: Table, selected: Sequence[str], task: TaskOption, taken: Collection[str]
) -> TargetColumns:
    """Read the ``selected`` columns; ``taken`` are columns with another role.

    A single target whose cells are text gives classes in alphabetical order. With the task
    ``auto``, no cell may be a number; with ``classification``, numbers are text, too.
    """
    names = expand_targets(table, selected, taken)
    if len(names) == 1 and task in ("auto", "classification"):
        classes = _text_classes(table, names[0], numbers_too=task == "classification")
        if classes is not None:
            return classes
    values = np.stack([table.numbers(name) for name in names], axis=1)
    return TargetColumns(names, values)


def expand_targets(
    table: Table, selected: Sequence[str], taken: Collection[str]
) -> tuple[str, ...]:
    """Return the names of target columns.

    A name of a column selects it. Otherwise ``all`` selects every column that is not ``taken``, and
    a pattern such as ``assay_*`` those that match. Patterns after ``!`` leave columns out again.
    """
    names: dict[str, None] = {}
    free = [name for name in table.header if name not in taken]
    for text in selected:
        excludes = text.startswith(_EXCLUDE) and text not in table.header
        pattern = text.removeprefix(_EXCLUDE) if excludes else text
        if pattern in table.header:
            matches = [pattern]
        elif pattern == ALL:
            matches = free
        elif any(letter in pattern for letter in "*?["):
            matches = [name for name in free if fnmatchcase(name, pattern)]
        else:
            matches = [pattern]  # reading it raises the error about a missing column
        if not matches or (excludes and not names.keys() & set(matches)):
            what = "leaves out none of the columns before it" if excludes else "matches no column"
            raise StageError(
                f"{table.name}: the target {shown(text)} {what}. The header is "
                f"`{','.join(table.header[:20])}{',…' if len(table.header) > 20 else ''}`."
            )
        for name in matches:
            if excludes:
                names.pop(name, None)
            else:
                names[name] = None
    if not names:
        raise StageError(f"{table.name}: `--target` leaves no column. Remove a pattern with `!`.")
    return tuple(names)


def _text_classes(table: Table, name: str, *, numbers_too: bool) -> TargetColumns | None:
    """Return the classes of a text column; None if it is to be read as numbers."""
    code_of: dict[str, int] = {}
    codes = np.full(table.count, -1, dtype=np.int64)
    has_text = False
    for row, cell in enumerate(table.cells(name)):
        text = cell.strip()
        if text.lower() in MISSING:
            continue
        is_number = _is_number(text)
        if is_number and not numbers_too:
            return None
        has_text = has_text or not is_number
        if text not in code_of:
            check_name(text, f"{table.name}, row {row}: {name}")
            if len(code_of) == MAX_CLASSES:
                if not has_text:
                    return None
                raise StageError(
                    f"{table.name}: `{name}` has more than {MAX_CLASSES} different texts. Use "
                    "`--task regression` for numbers, or another column."
                )
        codes[row] = code_of.setdefault(text, len(code_of))
    if not has_text:
        return None
    names = sorted(code_of)
    rank = np.array([names.index(text) for text in code_of] + [-1])
    ranked = rank[codes]
    values = np.where(ranked < 0, np.nan, ranked).astype(np.float64)[:, None]
    return TargetColumns((name,), values, tuple(names))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
