"""Random streams found by name, so that no result depends on order, workers or what ran before."""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np

_AT_ONCE = 4
"""Numbers that a step of the counter makes."""


def rng(seed: int, *name: str | int) -> np.random.Generator:
    """Return the counter-based stream called ``name`` under ``seed``.

    >>> rng(0, "splice", "shard", 3).integers(1000) == rng(0, "splice", "shard", 3).integers(1000)
    True
    """
    return np.random.Generator(np.random.Philox(key=stream_key(seed, *name)))


def stream_key(seed: int, *name: str | int) -> int:
    """Return the 128-bit key of a stream; the parts of a name cannot run into each other."""
    parts = "".join(
        f"{'str' if isinstance(part, str) else 'int'}:{len(str(part))}:{part};"
        for part in (seed, *name)
    )
    return int.from_bytes(hashlib.sha256(parts.encode()).digest()[:16], "little")


def skip(stream: np.random.Generator, count: int) -> None:
    """Leave out as many numbers as ``stream.random(count)`` takes, without making them.

    >>> one, other = rng(0, "a"), rng(0, "a")
    >>> skip(one, 9)
    >>> other.random(10)[-1] == one.random()
    True
    """
    counter = cast("np.random.Philox", stream.bit_generator)
    rest = count - (_AT_ONCE - int(counter.state["buffer_pos"]))
    if rest >= _AT_ONCE:
        counter.advance(rest // _AT_ONCE)
        count = rest % _AT_ONCE
    stream.random(count)
