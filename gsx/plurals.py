"""Numbers with nouns in messages."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number and a noun that agree, such as ``1 graph`` and ``1,200 graphs``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
