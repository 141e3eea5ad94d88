"""Shards as Zarr v3: concatenated arrays and pointers, one group per shard.

A group is written by one worker. Its attributes carry the corpus description, which contains the
vocabularies of coded columns. Untrusted metadata is checked before Zarr reads it: only plain
numbers, the `bytes`, `zstd` and `crc32c` codecs, and regular chunks without gaps are accepted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

from gsx.errors import ArtifactError, TableError
from gsx.ragged import Array, Ragged
from gsx.schema import Axis, Column, CorpusInfo
from gsx.storage.artifacts.atomic_files import remove_tree
from gsx.storage.artifacts.location import Location
from gsx.table import GraphTable, Values

if TYPE_CHECKING:
    import zarr

METADATA = "zarr.json"
CHUNK_ROWS = 131_072
MAX_METADATA_BYTES = 64 << 20
MAX_ARRAY_BYTES = 8 << 30
"""Size of an array above which a shard is rejected as a decompression bomb."""

_CODECS = {"bytes", "zstd", "crc32c"}
_DTYPES = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
           "float32", "float64"}  # fmt: skip
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
    """One shard, open for reading."""

    def __init__(self, location: Location, name: str, *, rows: int | None = None) -> None:
        # Imported here: zarr is slow to import, and few gsx processes read it.
        import zarr
        from zarr.storage import FsspecStore, LocalStore

        self.where = f"{location.url}/{name}"
        group = location.child(name)
        _check_metadata(group)
        store: Any = (
            LocalStore(group.local, read_only=True)
            if group.local is not None
            else FsspecStore.from_url(group.url, read_only=True)
        )
        try:
            self._group = zarr.open_group(store, mode="r", zarr_format=3)
            self.info = msgspec.convert(dict(self._group.attrs)["gsx"], CorpusInfo)
        except (KeyError, ValueError, OSError, msgspec.ValidationError) as error:
            raise ArtifactError(f"{self.where} is not a gsx Zarr group: {error}") from error
        if rows is not None and len(self) != rows:
            raise ArtifactError(f"{self.where} holds {len(self)} graphs; the manifest lists {rows}")

    def __len__(self) -> int:
        return int(self._array("node_ptr").shape[0]) - 1

    @property
    def groups(self) -> list[int]:
        """Graphs in each row group; a Zarr shard is one group."""
        return [len(self)]

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> GraphTable:
        """Return the shard with the named columns or all columns."""
        del group  # a Zarr shard has one group
        wanted = None if names is None else {*names, "edge_src", "edge_dst"}
        axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
        for column in self.info.columns:
            if wanted is None or column.name in wanted:
                axes[column.axis][column.name] = self._column(column)
        table = GraphTable(
            node_ptr=self._numbers("node_ptr", "int64"),
            edge_ptr=self._numbers("edge_ptr", "int64"),
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
        dtype = "uint8" if column.dtype == "text" else column.dtype
        values = self._numbers(column.name, dtype, column.width)
        if not column.ragged:
            return values
        return Ragged(self._numbers(column.name + _PTR, "int64"), values)

    def _array(self, name: str) -> zarr.Array[Any]:
        import zarr

        try:
            array = self._group.get(name)
        except (ValueError, TypeError) as error:
            raise ArtifactError(f"{self.where}/{name} is damaged: {error}") from error
        if not isinstance(array, zarr.Array):
            raise ArtifactError(f"{self.where} has no array `{name}`")
        return array

    def _numbers(self, name: str, dtype: str, width: int | None = None) -> Array:
        try:
            values = np.asarray(self._array(name)[...])
        except (ValueError, RuntimeError, OSError) as error:
            raise ArtifactError(f"{self.where}/{name} is damaged: {error}") from error
        row = () if width is None else (width,)
        if values.dtype.name != dtype or values.shape[1:] != row:
            raise ArtifactError(
                f"{self.where}/{name} holds {values.dtype.name} rows of shape {values.shape[1:]}; "
                f"the group describes {dtype} rows of shape {row}"
            )
        values.flags.writeable = False  # tables share memory, as with Parquet
        return values


def _check_metadata(group: Location) -> None:
    """Raise ArtifactError for arrays that are not plain compressed numbers or lack chunks."""
    try:
        files = group.sizes()
    except OSError as error:
        raise ArtifactError(f"{group.url} cannot be read: {error}") from error
    for path in files:
        folder, _, name = path.rpartition("/")
        if name != METADATA:
            continue
        where = f"{group.url}/{path}"
        try:
            metadata = json.loads(group.read_bytes(path, limit=MAX_METADATA_BYTES))
            if metadata["node_type"] != "group":
                _check_array(metadata, where, folder, files)
        except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise ArtifactError(f"{where} is not Zarr v3 metadata: {error!r}") from error


def _check_array(metadata: dict[str, Any], where: str, folder: str, files: Collection[str]) -> None:
    codecs = {str(codec["name"]) for codec in metadata["codecs"]}
    dtype, grid = str(metadata["data_type"]), metadata["chunk_grid"]["name"]
    if not codecs <= _CODECS or dtype not in _DTYPES or grid != "regular":
        raise ArtifactError(
            f"{where} has codecs {sorted(codecs)}, type {dtype} and grid {grid!r}; "
            "gsx reads only plain numbers compressed with zstd."
        )
    shape, chunk = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > MAX_ARRAY_BYTES:
        raise ArtifactError(
            f"{where} would decompress to {size} bytes, above the limit of {MAX_ARRAY_BYTES}"
        )
    counts = [-(-rows // step) for rows, step in zip(shape, chunk, strict=True)]
    if math.prod(counts) > len(files) or any(
        f"{folder}/c/{'/'.join(map(str, index))}" not in files for index in np.ndindex(*counts)
    ):
        raise ArtifactError(f"{where}: chunks are missing, which Zarr would read as zeros")
