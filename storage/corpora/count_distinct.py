"""Count distinct hashes in memory that does not grow with their number."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

RUN = 1 << 23
"""Hashes in hand at once: 64 MiB, and two or three times as much while they are sorted."""


def count_distinct(parts: Iterable[Hashes], folder: Path, most: int = RUN) -> int:
    """Return how many different hashes there are in all parts together.

    What is too much to hold goes to ``folder``, which must exist, and is removed at the end. Hashes
    that repeat others are dropped first, so parts that are much alike write nothing.
    """
    with contextlib.ExitStack() as stack:
        runs: list[Path] = []
        held: list[Hashes] = []
        for part in parts:
            held.append(part)
            if sum(map(len, held)) < most:
                continue
            held = [_sorted_once(held)]
            if len(held[0]) > most // 2:
                if not runs:
                    place = tempfile.TemporaryDirectory(prefix="distinct-", dir=folder)
                    scratch = Path(stack.enter_context(place))
                runs.append(scratch / f"{len(runs)}")
                held.pop().tofile(runs[-1])
        last = _sorted_once(held)
        if not runs:
            return len(last)
        runs.append(scratch / f"{len(runs)}")
        last.tofile(runs[-1])
        del last, held
        return _count_merged(runs, most)


def _count_merged(runs: Sequence[Path], most: int) -> int:
    """Count what sorted runs hold together, reading as much of each as all may have in hand.

    A step ends at the smallest of the last hashes that were read: up to there every run is known.
    """
    reach = max(most // len(runs), 1)
    places, count = [0] * len(runs), 0
    while True:
        read = [
            np.fromfile(run, dtype=np.uint64, count=reach, offset=8 * place)
            for run, place in zip(runs, places, strict=True)
        ]
        ends = [piece[-1] for piece in read if len(piece)]
        if not ends:
            return count
        known = [piece[: np.searchsorted(piece, min(ends), side="right")] for piece in read]
        places = [place + len(piece) for place, piece in zip(places, known, strict=True)]
        count += len(_sorted_once(known))


def _sorted_once(parts: Sequence[Hashes]) -> Hashes:
    """Return all hashes in order, each once."""
    if not parts:
        return np.zeros(0, dtype=np.uint64)
    found = np.concatenate(parts)
    found.sort()
    first = np.ones(len(found), dtype=bool)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    return found if first.all() else found[first]
