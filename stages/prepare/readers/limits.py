"""How limits on raw files grow with the size of the file."""

from __future__ import annotations

from gsx.limits import EXPANDED_BYTES, ROWS, UNPACKED_BYTES

UNPACKED_RATIO = 100
"""Accepted ratio of unpacked to packed size above ``UNPACKED_BYTES``."""
NODES_PER_EDGE = 10
"""Accepted nodes per edge above ``NODES``, for nodes that a file only counts."""


def unpacked_limit(size: int) -> int:
    """Return the number of bytes that a compressed file of ``size`` bytes may unpack to."""
    return max(UNPACKED_BYTES.value, UNPACKED_RATIO * size)


def row_limit(size: int) -> int:
    """Return the number of rows that a table of ``size`` bytes may have: one per byte.

    A plain table always has fewer. A compressed one has more only if its rows repeat.
    """
    return max(ROWS.value, size)


def expanded_limit(size: int) -> int:
    """Return the number of bytes that arrays of a file of ``size`` bytes may expand to."""
    return max(EXPANDED_BYTES.value, UNPACKED_RATIO * size)
