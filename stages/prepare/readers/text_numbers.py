"""Parse text files of numbers separated by commas, without a header."""

from __future__ import annotations

import io

import numpy as np

from gsx.errors import StageError
from gsx.limits import COLUMNS
from gsx.ragged import Array


def parse_text_numbers(data: bytes, dtypes: tuple[type, ...], where: str, *, width: int) -> Array:
    """Return the numbers of a file, one row per line, as the first type that holds all of them.

    ``where`` denotes the file in error messages. An empty file has no rows of ``width`` numbers.
    """
    if not data.strip():
        return np.zeros((0, width), dtype=dtypes[0])
    columns = io.BytesIO(data).readline().count(b",") + 1
    if columns > COLUMNS.value:
        raise StageError(
            f"{where} has {columns:,} numbers per line; the limit is {COLUMNS.value:,}. "
            f"{COLUMNS.advice}"
        )
    reason = ""
    for dtype in dtypes:
        try:
            return np.loadtxt(
                io.BytesIO(data), dtype=dtype, delimiter=",", comments=None, ndmin=2,
                encoding="utf-8",
            )  # fmt: skip
        except (ValueError, OverflowError) as error:  # UnicodeDecodeError is a ValueError
            reason = str(error).split("; use ")[0].rstrip(".")
    expected = "numbers" if np.float64 in dtypes or np.float32 in dtypes else "integers"
    raise StageError(f"{where} must contain only {expected}: {reason[:300]}")
