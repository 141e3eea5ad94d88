"""Check texts of raw files that become names: of columns, targets, domains and classes."""

from __future__ import annotations

from gsx.errors import StageError
from gsx.names import name_problem, shown


def check_name(text: str, where: str) -> None:
    """Reject a text that cannot be a name; ``where`` denotes its file and column."""
    problem = name_problem(text)
    if problem is not None:
        raise StageError(f"{where} {shown(text)} {problem}")
