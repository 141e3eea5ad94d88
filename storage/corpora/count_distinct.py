"""External-memory count of distinct hashes: memory does not grow with their number."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

MAX_IN_MEMORY = 1 << 23
"""Hashes in memory at once: 64 MiB, and two to three times that during sorting."""


def count_distinct(
    batches: Iterable[Hashes], folder: Path, max_in_memory: int = MAX_IN_MEMORY
) -> int:
    """Return the number of distinct hashes in all batches.

    Sorted runs that exceed memory are spilled to ``folder``, which must exist, and removed at the
    end. Duplicates are dropped before spilling, so batches with few distinct hashes write nothing.
    """
    with contextlib.ExitStack() as stack:
        runs: list[Path] = []
        buffer: list[Hashes] = []
        for batch in batches:
            buffer.append(batch)
            if sum(map(len, buffer)) < max_in_memory:
                continue
            buffer = [_sorted_unique(buffer)]
            if len(buffer[0]) > max_in_memory // 2:
                if not runs:
                    directory = tempfile.TemporaryDirectory(prefix="distinct-", dir=folder)
                    scratch = Path(stack.enter_context(directory))
                runs.append(scratch / f"{len(runs)}")
                buffer.pop().tofile(runs[-1])
        last = _sorted_unique(buffer)
        if not runs:
            return len(last)
        runs.append(scratch / f"{len(runs)}")
        last.tofile(runs[-1])
        del last, buffer
        return _count_merged(runs, max_in_memory)


def _count_merged(runs: Sequence[Path], max_in_memory: int) -> int:
    """Count the distinct hashes of sorted runs, reading an equal share of each run per step.

    A step counts up to the smallest last hash that was read: up to there every run is complete.
    """
    share = max(max_in_memory // len(runs), 1)
    positions, count = [0] * len(runs), 0
    while True:
        blocks = [
            np.fromfile(run, dtype=np.uint64, count=share, offset=8 * position)
            for run, position in zip(runs, positions, strict=True)
        ]
        ends = [block[-1] for block in blocks if len(block)]
        if not ends:
            return count
        complete = [block[: np.searchsorted(block, min(ends), side="right")] for block in blocks]
        positions = [
            position + len(block) for position, block in zip(positions, complete, strict=True)
        ]
        count += len(_sorted_unique(complete))


def _sorted_unique(batches: Sequence[Hashes]) -> Hashes:
    """Return the sorted distinct hashes."""
    if not batches:
        return np.zeros(0, dtype=np.uint64)
    hashes = np.concatenate(batches)
    hashes.sort()
    first = np.ones(len(hashes), dtype=bool)
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    return hashes if first.all() else hashes[first]
