"""A remote file whose ranges are read once, so that the bytes that were checked are decoded."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import BinaryIO

MAX_GAP = 64 << 10
"""Bytes between two ranges that are read together; a request costs more."""


class RangeCache(io.RawIOBase):
    """A seekable file; reads inside a held range come from memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = 0
        self._held: list[tuple[int, bytes]] = []

    def hold(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges, each given by its start and size, into memory."""
        merged: list[tuple[int, int]] = []
        for start, size in sorted(ranges):
            if merged and start <= sum(merged[-1]) + MAX_GAP:
                first, length = merged[-1]
                merged[-1] = first, max(length, start + size - first)
            else:
                merged.append((start, size))
        self._held += [(start, self._fetch(start, size)) for start, size in merged]

    def release(self) -> None:
        """Forget the ranges."""
        self._held = []

    def read_at(self, start: int, size: int) -> bytes:
        """Return bytes from an offset, fewer at the end of the file."""
        for first, data in self._held:
            if first <= start and start + size <= first + len(data):
                return data[start - first : start - first + size]
        return self._fetch(start, size)

    def _fetch(self, start: int, size: int) -> bytes:
        self._stream.seek(start)
        return self._stream.read(size)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read."""
        if whence == io.SEEK_SET:
            self._position = offset
        elif whence == io.SEEK_CUR:
            self._position += offset
        else:
            self._position = self._stream.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        if size is None or size < 0:
            size = self._stream.seek(0, io.SEEK_END) - self._position
        data = self.read_at(self._position, size)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
