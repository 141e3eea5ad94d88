"""Shards as Zarr v3: concatenated arrays and pointers, one group per shard.

A group is written by one worker. Its attributes carry the corpus description, which contains the
vocabularies of coded columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

from gsx.errors import ArtifactError, TableError
from gsx.ragged import Array, Ragged
from gsx.schema import TEXT, Axis, Column, CorpusInfo
from gsx.storage.artifacts.atomic_files import remove_tree
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.artifact_files import decode_json, read_json
from gsx.storage.corpora.limits import (
    MIN_ZARR_BYTES,
    NO_EXTENT,
    Extent,
    check_decoded,
    fixed_columns,
    read_limit,
)
from gsx.storage.corpora.parquet_footer import ShardSchema, check_same_corpus
from gsx.storage.corpora.zarr_metadata import ArrayMetadata, Arrays, GroupMetadata
from gsx.table import GraphTable, Values

if TYPE_CHECKING:
    from gsx.storage.corpora.zarr_store import ShardStore

METADATA = "zarr.json"
CHUNK_ROWS = 131_072
MAX_METADATA_BYTES = 1 << 16
"""Size of the metadata of an array."""

_PTR = ".ptr"
_ZSTD = Zstd(level=1, checksum=True)


def write_zarr(path: Path, tables: Iterable[GraphTable], info: CorpusInfo) -> None:
    """Write consecutive tables as one group; the bytes do not depend on the sizes of the tables.

    The files equal those of the zarr package, which takes twice as long: most arrays of a shard are
    small, and its overhead per array exceeds the work.
    """
    remove_tree(path)
    path.mkdir(parents=True)
    attributes = {"gsx": msgspec.to_builtins(info)}
    _write_metadata(path, {"attributes": attributes, "zarr_format": 3, "node_type": "group"})
    writers: dict[str, _ArrayWriter] = {}

    def append(name: str, values: Array, *, is_ptr: bool = False) -> None:
        if name not in writers:
            writers[name] = _ArrayWriter(path / name, is_ptr=is_ptr)
        writers[name].append(values)

    for table in tables:
        append("node_ptr", table.node_ptr, is_ptr=True)
        append("edge_ptr", table.edge_ptr, is_ptr=True)
        for column in info.columns:
            values = table.columns(column.axis)[column.name]
            if isinstance(values, Ragged):
                append(column.name + _PTR, values.ptr, is_ptr=True)
                append(column.name, values.values)
            else:
                append(column.name, values)
    for writer in writers.values():
        writer.finish()


class _ArrayWriter:
    """Writes one Zarr array incrementally; pointer arrays continue where the previous one ended.

    Every chunk is written, also one of zeros, so that a missing chunk means data loss.
    """

    def __init__(self, folder: Path, *, is_ptr: bool) -> None:
        self._folder, self._is_ptr = folder, is_ptr
        self._buffer: list[Array] = []
        self._rows = self._written = self._last = 0
        folder.mkdir()

    def append(self, values: Array) -> None:
        """Append rows and write the chunks that are complete."""
        if self._is_ptr:
            start = self._last
            self._last += int(values[-1])
            values = values[1:] + start if self._rows else values
        self._buffer.append(values)
        self._rows += len(values)
        if self._rows - self._written * CHUNK_ROWS <= CHUNK_ROWS:
            return  # perhaps the only chunk, which is as long as the array
        buffer = np.concatenate(self._buffer)
        full = (len(buffer) - 1) // CHUNK_ROWS * CHUNK_ROWS
        for start in range(0, full, CHUNK_ROWS):
            self._write(buffer[start : start + CHUNK_ROWS], CHUNK_ROWS)
        self._buffer = [buffer[full:]]

    def finish(self) -> None:
        """Write the remaining rows and the metadata."""
        rest = self._buffer[0] if len(self._buffer) == 1 else np.concatenate(self._buffer)
        rows = min(max(self._rows, 1), CHUNK_ROWS)
        if rest.size:
            self._write(rest, rows)
        shape = (self._rows, *rest.shape[1:])
        _write_metadata(self._folder, _array_metadata(rest.dtype, shape, (rows, *shape[1:])))

    def _write(self, values: Array, rows: int) -> None:
        chunk = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        if len(chunk) < rows:
            partial, chunk = chunk, np.zeros((rows, *values.shape[1:]), chunk.dtype)
            chunk[: len(partial)] = partial
        target = self._folder.joinpath("c", str(self._written), *("0" for _ in values.shape[1:]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_ZSTD.encode(chunk))
        self._written += 1


def _array_metadata(
    dtype: np.dtype[Any], shape: tuple[int, ...], chunk: tuple[int, ...]
) -> dict[str, Any]:
    endian = {"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {}
    return {
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": dtype.type(0).item(),
        "codecs": [
            {"name": "bytes", **endian},
            {"name": "zstd", "configuration": {"level": _ZSTD.level, "checksum": True}},
        ],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _write_metadata(folder: Path, metadata: dict[str, Any]) -> None:
    (folder / METADATA).write_text(json.dumps(metadata, indent=2))


class ZarrShard:
    """One shard, open for reading.

    ``expected`` is the schema of the corpus; without it, the attributes describe the shard. All
    metadata is checked when the shard is opened, before any chunk is read; ``extent`` returns the
    rows of the split.
    """

    def __init__(
        self,
        location: Location,
        name: str,
        *,
        rows: int | None = None,
        expected: ShardSchema | None = None,
        extent: Callable[[], Extent] = lambda: NO_EXTENT,
    ) -> None:
        self.where = f"{location.url}/{name}"
        self._location = location.child(name)
        try:
            files = self._location.sizes()
        except OSError as error:
            raise ArtifactError(f"{self.where} cannot be read: {error}") from error
        if METADATA not in files:
            raise ArtifactError(f"{self.where} is not a gsx Zarr group: it has no {METADATA}")
        self.info = self._read_info(expected)
        self._arrays = self._read_arrays(files)
        self._check_decoded(sum(files.values()), extent)
        if rows is not None and len(self) != rows:
            raise ArtifactError(f"{self.where} holds {len(self)} graphs; the manifest lists {rows}")

    def _read_info(self, expected: ShardSchema | None) -> CorpusInfo:
        """Return the corpus description, which must agree with that of the corpus."""
        where = f"{self.where}/{METADATA}"
        group = read_json(self._location, METADATA, GroupMetadata)
        info = decode_json(bytes(group.attributes.gsx), CorpusInfo, where)
        if expected is None:
            return info
        check_same_corpus(info, expected.info, self.where)
        return expected.info

    def _read_arrays(self, files: Mapping[str, int]) -> Arrays:
        """Return the metadata of all arrays."""
        expected = _row_shapes(self.info)
        unknown = {path.partition("/")[0] for path in files} - {METADATA, *expected}
        if unknown:
            raise ArtifactError(
                f"{self.where} contains {min(unknown)!r}, which its description does not list"
            )
        arrays = {}
        for name, (dtype, row) in expected.items():
            path = f"{name}/{METADATA}"
            if path not in files:
                raise ArtifactError(f"{self.where} has no array `{name}`")
            metadata = read_json(self._location, path, ArrayMetadata, limit=MAX_METADATA_BYTES)
            metadata.check(f"{self.where}/{path}", name, files)
            if (metadata.data_type, metadata.shape[1:]) != (dtype, row):
                raise ArtifactError(
                    f"{self.where}/{name} holds {metadata.data_type} rows of shape "
                    f"{metadata.shape[1:]}; the group describes {dtype} rows of shape {row}"
                )
            arrays[name] = metadata
        return arrays

    def _check_decoded(self, stored: int, extent: Callable[[], Extent]) -> None:
        decoded = sum(metadata.decoded for metadata in self._arrays.values())
        limit = read_limit(stored, minimum=MIN_ZARR_BYTES)
        if decoded > limit:
            fixed = fixed_columns(self.info)
            lists = sum(array.decoded for name, array in self._arrays.items() if name not in fixed)
            check_decoded(f"{self.where}: its lists", lists, limit)
            explained = extent().decoded(self.info, len(self))
            check_decoded(self.where, decoded, read_limit(stored, explained, MIN_ZARR_BYTES))

    def __len__(self) -> int:
        return max(self._arrays["node_ptr"].shape[0] - 1, 0)

    @property
    def groups(self) -> list[int]:
        """Graphs in each row group; a Zarr shard is one group."""
        return [len(self)]

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> GraphTable:
        """Return the shard with the named columns or all columns."""
        del group  # a Zarr shard has one group
        wanted = None if names is None else {*names, "edge_src", "edge_dst"}
        axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
        node_ptr, edge_ptr = self._numbers("node_ptr"), self._numbers("edge_ptr")
        for column in self.info.columns:
            if wanted is None or column.name in wanted:
                axes[column.axis][column.name] = self._column(column)
        table = GraphTable(
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            graph=axes["graph"],
            node=axes["node"],
            edge=axes["edge"],
        )
        try:
            return table.validate()
        except TableError as error:
            raise ArtifactError(f"{self.where}: {error}") from error

    def iter_groups(self, names: Sequence[str] | None = None) -> Iterator[GraphTable]:
        """Yield the shard as one table."""
        yield self.read(names)

    def _column(self, column: Column) -> Values:
        if not column.ragged:
            return self._numbers(column.name)
        return Ragged(self._numbers(column.name + _PTR), self._numbers(column.name))

    @cached_property
    def _store(self) -> ShardStore:
        # Imported here: zarr is slow to import, and few gsx processes read it.
        from gsx.storage.corpora.zarr_store import ShardStore

        return ShardStore(self._location, self._arrays)

    def _numbers(self, name: str) -> Array:
        import zarr

        try:
            array = zarr.open_array(self._store, path=name, mode="r", zarr_format=3)
            values = np.asarray(array[...])
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            raise ArtifactError(f"{self.where}/{name} is damaged: {error}") from error
        values.flags.writeable = False  # tables share memory, as with Parquet
        return values


def _row_shapes(info: CorpusInfo) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return type and row shape of every array of a shard."""
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "node_ptr": ("int64", ()),
        "edge_ptr": ("int64", ()),
    }
    for column in info.columns:
        dtype = "uint8" if column.dtype == TEXT else column.dtype
        shapes[column.name] = (dtype, () if column.width is None else (column.width,))
        if column.ragged:
            shapes[column.name + _PTR] = ("int64", ())
    return shapes
