"""Named random streams: results do not depend on execution order or the number of workers."""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np

_BLOCK = 4
"""Numbers per counter step of Philox."""


def rng(seed: int, *name: str | int) -> np.random.Generator:
    """Return the counter-based random generator (Philox) with key ``(seed, *name)``.

    >>> rng(0, "splice", "shard", 3).integers(1000) == rng(0, "splice", "shard", 3).integers(1000)
    True
    """
    return np.random.Generator(np.random.Philox(key=stream_key(seed, *name)))


def stream_key(seed: int, *name: str | int) -> int:
    """Return the 128-bit key of a stream; the parts of a name are encoded unambiguously."""
    parts = "".join(
        f"{'str' if isinstance(part, str) else 'int'}:{len(str(part))}:{part};"
        for part in (seed, *name)
    )
    return int.from_bytes(hashlib.sha256(parts.encode()).digest()[:16], "little")


def skip(stream: np.random.Generator, count: int) -> None:
    """Advance ``stream`` as ``stream.random(count)`` does, without generating the numbers.

    >>> one, other = rng(0, "a"), rng(0, "a")
    >>> skip(one, 9)
    >>> other.random(10)[-1] == one.random()
    True
    """
    counter = cast("np.random.Philox", stream.bit_generator)
    rest = count - (_BLOCK - int(counter.state["buffer_pos"]))
    if rest >= _BLOCK:
        counter.advance(rest // _BLOCK)
        count = rest % _BLOCK
    stream.random(count)
