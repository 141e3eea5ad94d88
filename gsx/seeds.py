"""Random streams found by name, so that no result depends on order, workers or what ran before."""

from __future__ import annotations

import hashlib

import numpy as np


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
