"""Blocks of named arrays as bytes: to send to other processes, or to keep on disk for a while."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Mapping

import numpy as np
from safetensors.numpy import load, save

from gsx.ragged import Array

Block = Mapping[str, Array]


def pack(block: Block) -> bytes:
    """Return a block as the bytes of a safetensors file: no archive, no checksum, little to do."""
    return save({name: np.asarray(values, order="C") for name, values in block.items()})


def unpack(data: bytes) -> dict[str, Array]:
    """Return the block that ``pack`` packed."""
    return load(data)


class Spill:
    """Blocks in a temporary file that has no name and is gone when nobody needs it anymore."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._ends = [0]
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, block: Block) -> None:
        """Put a block at the end."""
        data = pack(block)
        self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))

    def read(self, number: int) -> dict[str, Array]:
        """Return a block; threads may ask side by side."""
        self._file.flush()
        start, stop = self._ends[number : number + 2]
        return unpack(os.pread(self._file.fileno(), stop - start, start))
