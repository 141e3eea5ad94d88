"""Blocks of named arrays as bytes, for other processes or a temporary file."""

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
    """Serialize a block in the safetensors format, which needs no pickle and copies once."""
    return save({name: np.asarray(values, order="C") for name, values in block.items()})


def unpack(data: bytes) -> dict[str, Array]:
    """Return the block that ``pack`` serialized."""
    return load(data)


class SpillFile:
    """Blocks in an unnamed temporary file, which is deleted with this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._ends = [0]
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, block: Block) -> None:
        """Append a block."""
        data = pack(block)
        self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))

    def read(self, index: int) -> dict[str, Array]:
        """Return a block; safe to call from several threads."""
        self._file.flush()
        start, stop = self._ends[index : index + 2]
        return unpack(os.pread(self._file.fileno(), stop - start, start))
