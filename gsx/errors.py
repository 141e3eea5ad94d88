"""Expected errors with exit codes. Any other exception is a bug and keeps its traceback.

GsxError
├── UsageError       exit 2   invalid command line or argument
│   └── RecipeError  exit 2   invalid recipe file
├── ArtifactError    exit 3   missing, damaged, incompatible or untrusted artifact
│   └── StoreError   exit 3   store that cannot be read or written
├── StageError       exit 4   data that a stage cannot process
│   ├── MoleculeError exit 4  invalid molecule
│   └── TableError   exit 4   invalid graph table
│       └── SchemaError exit 4 invalid description of a corpus
└── PartialError     exit 5   some shards failed; the others are kept
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GsxError(Exception):
    """An expected error; the message contains location, cause and advice."""

    exit_code = 1


class UsageError(GsxError):
    """Invalid command line or argument."""

    exit_code = 2


class RecipeError(UsageError):
    """Invalid recipe."""


class ArtifactError(GsxError):
    """Missing, damaged, incompatible or untrusted artifact."""

    exit_code = 3


class StoreError(ArtifactError):
    """Store that cannot be read or written."""


class StageError(GsxError):
    """Data that a stage cannot process."""

    exit_code = 4


class InputError(StageError, UsageError):
    """An option names something that the input lacks, such as a column of a table."""

    exit_code = 2


class MoleculeError(StageError):
    """Molecule that cannot be parsed or is chemically invalid."""


class TableError(StageError):
    """Invalid graph table."""


class SchemaError(TableError, ValueError):
    """Invalid description of a corpus; decoders of JSON report it with its place in the file."""


class PartialError(GsxError):
    """Some shards failed; finished shards are kept and nothing is published."""

    exit_code = 5


def describe_os_error(error: OSError) -> str:
    """Return the message of an error of the file system that no part of gsx has explained."""
    return (
        f"{error.filename or 'a file'}: {error.strerror}. Nothing incomplete was published.\n"
        "Check the disk and the permissions, then run the command again."
    )


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return a sentence that suggests the closest option to ``word``, or lists all options."""
    available = list(options)
    if not available:
        return "There is none."
    closest = difflib.get_close_matches(word, available, n=1)
    if closest:
        return f"Did you mean `{closest[0]}`?"
    return "Known: " + ", ".join(f"`{option}`" for option in sorted(available)) + "."
