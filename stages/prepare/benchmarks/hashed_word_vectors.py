"""Words as vectors that need no model: what a word is made of, hashed.

A word is a bag of itself and of its runs of three to five characters, with marks at both ends.
Every member adds a one or a minus one to one of the places of the vector; place and sign are bits
of its hash. So words that share a stem have vectors that are near each other, unseen words too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from gsx.ragged import Array

WIDTH = 128
_RUNS = (3, 4, 5)
_WHOLE = 2.0
"""How many runs of characters the whole word weighs."""
_LONGEST = 64
"""Characters of a word that are looked at."""


def hashed_words(words: Sequence[str], width: int = WIDTH) -> Array:
    """Return a vector per word, ``[V, width]`` float32, scaled to a mean square of 1."""
    found = np.zeros((len(words), width), dtype=np.float32)
    for row, word in enumerate(words):
        for part, weight in _parts(word.lower()[:_LONGEST]):
            bits = int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little")
            found[row, (bits >> 1) % width] += weight if bits & 1 else -weight
    length = np.sqrt(np.square(found).mean(axis=1, keepdims=True))
    return found / np.where(length > 0, length, 1).astype(np.float32)


def _parts(word: str) -> list[tuple[str, float]]:
    marked = f"<{word}>"
    runs = [
        (marked[at : at + size], 1.0)
        for size in _RUNS
        for at in range(len(marked) - size + 1)
        if size < len(marked)
    ]
    return [(f"={word}", _WHOLE), *runs]
