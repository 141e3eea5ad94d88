"""Word vectors from hashed character n-grams, without a model.

A word is represented by itself and its character n-grams (n = 3 to 5), with markers at both ends.
Feature hashing adds +1 or -1 for each of them to one component of the vector; index and sign are
bits of its hash. Words with the same stem therefore have similar vectors, including new words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from gsx.ragged import Array

WIDTH = 128
_NGRAM_SIZES = (3, 4, 5)
_WORD_WEIGHT = 2.0
"""Weight of the whole word relative to one n-gram."""
_MAX_CHARACTERS = 64
"""Characters of a word that are used."""


def hashed_word_vectors(words: Sequence[str], width: int = WIDTH) -> Array:
    """Return one vector per word, ``[V, width]`` float32, scaled to a mean square of 1."""
    vectors = np.zeros((len(words), width), dtype=np.float32)
    for row, word in enumerate(words):
        for ngram, weight in _weighted_ngrams(word.lower()[:_MAX_CHARACTERS]):
            bits = int.from_bytes(hashlib.blake2b(ngram.encode(), digest_size=8).digest(), "little")
            vectors[row, (bits >> 1) % width] += weight if bits & 1 else -weight
    length = np.sqrt(np.square(vectors).mean(axis=1, keepdims=True))
    return vectors / np.where(length > 0, length, 1).astype(np.float32)


def _weighted_ngrams(word: str) -> list[tuple[str, float]]:
    """Return the word and its character n-grams with their weights."""
    marked = f"<{word}>"
    ngrams = [
        (marked[start : start + size], 1.0)
        for size in _NGRAM_SIZES
        for start in range(len(marked) - size + 1)
        if size < len(marked)
    ]
    return [(f"={word}", _WORD_WEIGHT), *ngrams]
