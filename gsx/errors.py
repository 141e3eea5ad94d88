"""Failures a user can act on. Anything else that is raised is a bug and keeps its traceback.

GsxError
├── UsageError       exit 2   a command line or argument that cannot be understood
│   └── RecipeError  exit 2   a recipe file that cannot be understood
├── ArtifactError    exit 3   an artifact is absent, damaged, foreign or not to be trusted
│   └── StoreError   exit 3   the place that holds artifacts cannot be read or written
├── StageError       exit 4   a stage met data it cannot work on
│   ├── MoleculeError exit 4  a molecule that chemistry does not allow
│   └── TableError   exit 4   graphs that break the rules of a graph table
└── PartialError     exit 5   some shards could not be made; the others are kept
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GsxError(Exception):
    """An expected failure: its text says where, what was found and what to do."""

    exit_code = 1


class UsageError(GsxError):
    """A command line or an argument that cannot be understood."""

    exit_code = 2


class RecipeError(UsageError):
    """A recipe that cannot be understood."""


class ArtifactError(GsxError):
    """An artifact that is absent, damaged, foreign or not to be trusted."""

    exit_code = 3


class StoreError(ArtifactError):
    """A store that cannot be read or written."""


class StageError(GsxError):
    """Data a stage cannot work on."""

    exit_code = 4


class MoleculeError(StageError):
    """A molecule that cannot be read, or that chemistry does not allow."""


class TableError(StageError):
    """Graphs that break the rules of a graph table."""


class PartialError(GsxError):
    """Shards that could not be made, while others were; those are kept, nothing is published."""

    exit_code = 5


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a sentence that guesses what ``word`` should have been, or lists what is known."""
    options = list(known)
    if not options:
        return "There is none."
    guess = difflib.get_close_matches(word, options, n=1)
    if guess:
        return f"Did you mean `{guess[0]}`?"
    return "Known: " + ", ".join(f"`{option}`" for option in sorted(options)) + "."
