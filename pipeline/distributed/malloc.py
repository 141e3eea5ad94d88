"""Tune glibc's memory allocator."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)


def keep_freed_memory() -> None:
    """Raise glibc's malloc trim and mmap thresholds, so that freed blocks are reused.

    Builds allocate and free large arrays all the time. With the default thresholds, the kernel
    clears their pages each time, and Dask even makes workers return every block at once
    (``MALLOC_TRIM_THRESHOLD_``). Without effect on other C libraries.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 1 << 28)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)
