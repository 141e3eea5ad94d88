"""Metadata and chunks of Zarr arrays from untrusted sources, checked before Zarr reads them.

Only plain numbers, the codecs `bytes`, `zstd` and `crc32c`, and regular chunks without gaps are
accepted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from gsx.errors import ArtifactError
from gsx.schema import NUMBERS

_Length = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
_Shape = Annotated[tuple[_Length, ...], msgspec.Meta(min_length=1, max_length=2)]
_CODECS = (("bytes",), ("bytes", "zstd"), ("bytes", "crc32c"), ("bytes", "zstd", "crc32c"))
_MAGIC = b"\x28\xb5\x2f\xfd"
_CRC_BYTES = 4


class _Grid(msgspec.Struct, frozen=True):
    chunk_shape: _Shape


class _ChunkGrid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    configuration: _Grid


class _Separator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    separator: Literal["/"] = "/"


class _KeyEncoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Literal["default"]
    configuration: _Separator = _Separator()


class _CodecOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    endian: Literal["little", "big"] | None = None
    level: Annotated[int, msgspec.Meta(ge=-200, le=22)] | None = None
    checksum: bool | None = None


class _Codec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    configuration: _CodecOptions = _CodecOptions()


class ArrayMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Content of the `zarr.json` of an array."""

    shape: _Shape
    data_type: str
    chunk_grid: _ChunkGrid
    chunk_key_encoding: _KeyEncoding
    fill_value: int | float | bool | str
    codecs: tuple[_Codec, ...]
    zarr_format: Literal[3]
    node_type: Literal["array"]
    attributes: dict[str, Any] = {}
    storage_transformers: tuple[()] = ()
    dimension_names: tuple[str | None, ...] | None = None

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Rows and columns of a chunk."""
        return self.chunk_grid.configuration.chunk_shape

    @cached_property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk."""
        return math.prod(self.chunk_shape) * np.dtype(self.data_type).itemsize

    @cached_property
    def decoded(self) -> int:
        """Bytes of all decoded chunks."""
        return self.chunk_bytes * math.prod(self._grid)

    @cached_property
    def _grid(self) -> tuple[int, ...]:
        return tuple(
            -(-rows // step) for rows, step in zip(self.shape, self.chunk_shape, strict=True)
        )

    def check(self, where: str, folder: str, files: Collection[str]) -> None:
        """Raise ArtifactError unless the array holds plain numbers and all its chunks exist."""
        codecs, grid = tuple(codec.name for codec in self.codecs), self.chunk_grid.name
        if codecs not in _CODECS or self.data_type not in NUMBERS or grid != "regular":
            raise ArtifactError(
                f"{where} has codecs {list(codecs)}, type {self.data_type} and grid {grid!r}; "
                "gsx reads only plain numbers compressed with zstd."
            )
        if len(self.shape) != len(self.chunk_shape) or any(
            not 1 <= step <= max(rows, 1)
            for rows, step in zip(self.shape, self.chunk_shape, strict=True)
        ):
            raise ArtifactError(
                f"{where} has chunks of shape {list(self.chunk_shape)} in an array of shape "
                f"{list(self.shape)}; a chunk must be within the array"
            )
        if math.prod(self._grid) > len(files) or any(
            f"{folder}/c/{'/'.join(map(str, index))}" not in files
            for index in itertools.product(*map(range, self._grid))
        ):
            raise ArtifactError(f"{where}: chunks are missing, which Zarr would read as zeros")

    @property
    def max_stored(self) -> int:
        """Bytes that a stored chunk may have: zstd adds little to data that it cannot compress."""
        return self.chunk_bytes + self.chunk_bytes // 128 + 1024

    def check_chunk(self, data: bytes, where: str) -> None:
        """Raise ArtifactError unless a stored chunk decodes to the bytes of one chunk."""
        codecs = [codec.name for codec in self.codecs]
        body = data[:-_CRC_BYTES] if codecs[-1] == "crc32c" else data
        declared = frame_content(body) if "zstd" in codecs else len(body)
        if declared != self.chunk_bytes:
            found = "no zstd frame of known size" if declared is None else f"{declared:,} bytes"
            raise ArtifactError(
                f"{where} is damaged: a chunk of {self.chunk_bytes:,} bytes is expected; it holds "
                f"{found}"
            )


def frame_content(data: bytes) -> int | None:
    """Return the declared content size if ``data`` is exactly one zstd frame, else None."""
    if len(data) < 6 or data[:4] != _MAGIC:
        return None
    descriptor = data[4]
    is_single = bool(descriptor & 0b100000)
    at = 5 if is_single else 6
    at += (0, 1, 2, 4)[descriptor & 0b11]
    length = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    if not length:
        return None
    content = int.from_bytes(data[at : at + length], "little") + (256 if length == 2 else 0)
    at += length
    last = False
    while not last:
        if at + 3 > len(data):
            return None
        block = int.from_bytes(data[at : at + 3], "little")
        last = bool(block & 1)
        at += 3 + (1 if block >> 1 & 0b11 == 1 else block >> 3)
    at += 4 if descriptor & 0b100 else 0
    return content if at == len(data) else None


class _GroupAttributes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gsx: msgspec.Raw


class GroupMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the `zarr.json` of a group.

    Consolidated metadata is refused: it would take precedence over that of the arrays.
    """

    attributes: _GroupAttributes
    zarr_format: Literal[3]
    node_type: Literal["group"]


Arrays = Mapping[str, ArrayMetadata]
"""Metadata of the arrays of a group, by name."""
