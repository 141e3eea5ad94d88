"""A read-only Zarr store over the files of one shard, which checks every chunk it returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import msgspec
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from gsx.errors import ArtifactError
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.artifact_files import read_file
from gsx.storage.corpora.zarr_metadata import Arrays

_NO_KEYS: tuple[str, ...] = ()


class ShardStore(Store):
    """The arrays of a shard whose metadata was checked.

    Metadata comes from memory, so that Zarr uses what was checked. A chunk is read whole.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = False
    supports_partial_writes = False

    def __init__(self, location: Location, arrays: Arrays) -> None:
        super().__init__(read_only=True)
        self._location = location
        self._arrays = arrays

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardStore) and other._location == self._location

    def __hash__(self) -> int:
        return hash(self._location.url)

    def __str__(self) -> str:
        return self._location.url

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return a chunk, or the metadata of an array; None for other keys."""
        name, _, rest = key.partition("/")
        metadata = self._arrays.get(name)
        if metadata is None or not (rest == "zarr.json" or rest.startswith("c/")):
            return None
        if rest == "zarr.json":
            data = msgspec.json.encode(metadata)
        elif self._location.local is None:
            data = await asyncio.to_thread(self._chunk, key)
        else:
            data = self._chunk(key)
        buffer = (prototype or default_buffer_prototype()).buffer
        return buffer.from_bytes(_part(data, byte_range))

    def _chunk(self, key: str) -> bytes:
        metadata = self._arrays[key.partition("/")[0]]
        data = read_file(self._location, key, limit=metadata.max_stored)
        metadata.check_chunk(data, f"{self._location.url}/{key}")
        return data

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of several keys."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether there is a key."""
        return await self.get(key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write."""
        raise ArtifactError(f"{self._location.url} is read-only")

    async def delete(self, key: str) -> None:
        """Refuse to delete."""
        raise ArtifactError(f"{self._location.url} is read-only")

    async def list(self) -> AsyncIterator[str]:
        """Return no keys: arrays are opened by name."""
        for name in _NO_KEYS:
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Return no keys."""
        for name in _NO_KEYS:
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Return no keys."""
        for name in _NO_KEYS:
            yield name


def _part(data: bytes, byte_range: ByteRequest | None) -> bytes:
    if byte_range is None:
        return data
    if isinstance(byte_range, RangeByteRequest):
        return data[byte_range.start : byte_range.end]
    if isinstance(byte_range, OffsetByteRequest):
        return data[byte_range.offset :]
    if isinstance(byte_range, SuffixByteRequest):
        return data[-byte_range.suffix :]
    raise ArtifactError(f"an unknown part of a chunk was requested: {byte_range!r}")
