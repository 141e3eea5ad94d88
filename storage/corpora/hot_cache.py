"""The hot cache: a corpus as plain arrays on the local disk, memory-mapped.

It is made once per content digest, in the user's cache folder, and is what training and random
access read from. It can always be made again from the corpus, so it is never shared or trusted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
from filelock import FileLock

from gsx.errors import ArtifactError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import Axis, CorpusInfo
from gsx.storage.artifacts.atomic_files import explained, remove_tree
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.verification_cache import cache_root
from gsx.table import GraphTable, Values

INDEX = "index.json"
VERSION = 1
SPARE = 32
"""When graphs are gathered, there is room for one more of mean size per so many."""

_PTR = ".ptr"


class _Stored(msgspec.Struct, frozen=True):
    """Type and shape of one raw array file."""

    dtype: str
    shape: tuple[int, ...]


class _Index(msgspec.Struct, frozen=True):
    version: int
    arrays: dict[str, _Stored]


def hot_folder(digest: str) -> Path:
    """Return where the hot cache of a content digest lies or would lie."""
    return cache_root() / "hot" / digest


def open_hot(digest: str, info: CorpusInfo) -> GraphTable | None:
    """Return the cached corpus as one memory-mapped table, or None when there is no cache."""
    folder = hot_folder(digest)
    try:
        index = msgspec.json.decode((folder / INDEX).read_bytes(), type=_Index)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        index = None
    if index is not None and index.version == VERSION and _whole(folder, index, info):
        table = _table(folder, index, info)
        if _agrees(table):
            return table
    remove_tree(folder)  # damaged or of another version: it is made again when needed
    return None


def build_hot(digest: str, info: CorpusInfo, tables: Iterable[GraphTable]) -> GraphTable:
    """Write the tables of a corpus, in order, as one cache and return it; memory stays small."""
    folder = hot_folder(digest)
    with explained(str(folder), lost="The corpus itself is untouched."):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            found = open_hot(digest, info)
            if found is None:
                _write(folder, info, tables)
                found = open_hot(digest, info)
    if found is None:
        raise ArtifactError(f"the cache at {folder} could not be read back; remove it and retry")
    return found


def _write(folder: Path, info: CorpusInfo, tables: Iterable[GraphTable]) -> None:
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    remove_tree(draft)
    draft.mkdir()
    writer = _Writer(draft)
    try:
        for table in tables:
            writer.add("node", table.num_nodes)
            writer.add("edge", table.num_edges)
            for column in info.columns:
                values = table.columns(column.axis)[column.name]
                if isinstance(values, Ragged):
                    writer.add(column.name + _PTR, np.diff(values.ptr))
                    writer.add(column.name, values.values)
                else:
                    writer.add(column.name, values)
        arrays = writer.close()
        (draft / INDEX).write_bytes(readable_json(_Index(VERSION, arrays)))
        draft.rename(folder)
    finally:
        try:
            writer.close()  # fails on a full disk
        finally:
            remove_tree(draft)


class _Writer:
    """Appends to one raw file per array."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, BinaryIO] = {}
        self._arrays: dict[str, _Stored] = {}

    def add(self, name: str, values: Array) -> None:
        if name not in self._open:
            self._open[name] = (self._folder / name).open("wb")
            self._arrays[name] = _Stored(values.dtype.str, (0, *values.shape[1:]))
        stored = self._arrays[name]
        self._arrays[name] = _Stored(
            stored.dtype, (stored.shape[0] + len(values), *stored.shape[1:])
        )
        self._open[name].write(np.ascontiguousarray(values).data)

    def close(self) -> dict[str, _Stored]:
        for stream in self._open.values():
            stream.close()
        return self._arrays


def _whole(folder: Path, index: _Index, info: CorpusInfo) -> bool:
    """Say whether there is one file per array of the corpus, of the right type and size."""
    expected = _row_types(info)
    if index.arrays.keys() != expected.keys():
        return False
    for name, row in expected.items():
        stored, path = index.arrays[name], folder / name
        if (stored.dtype, stored.shape[1:]) != (row.dtype, row.shape):
            return False
        size = math.prod(stored.shape) * np.dtype(stored.dtype).itemsize
        if not path.is_file() or path.stat().st_size != size:
            return False
    return True


def _row_types(info: CorpusInfo) -> dict[str, _Stored]:
    """Return type and shape of one row of every array the cache of a corpus has."""
    count = _Stored(np.dtype("int64").str, ())
    rows = {"node": count, "edge": count}
    for column in info.columns:
        dtype = np.dtype("uint8" if column.dtype == "text" else column.dtype)
        rows[column.name] = _Stored(dtype.str, () if column.width is None else (column.width,))
        if column.ragged:
            rows[column.name + _PTR] = count
    return rows


def _agrees(table: GraphTable) -> bool:
    """Say whether all counts add up; values are not looked at, for that would read the disk."""
    rows: dict[Axis, int] = {
        "graph": len(table),
        "node": table.total_nodes,
        "edge": table.total_edges,
    }
    return all(
        len(values) == count
        and (not isinstance(values, Ragged) or values.ptr[-1] == len(values.values))
        for axis, count in rows.items()
        for values in table.columns(axis).values()
    )


def _map(folder: Path, index: _Index, name: str) -> Array:
    stored = index.arrays[name]
    if 0 in stored.shape:
        return np.zeros(stored.shape, stored.dtype)
    mapped = np.memmap(folder / name, dtype=stored.dtype, mode="r", shape=stored.shape)
    return mapped.view(np.ndarray)


def _pointers(folder: Path, index: _Index, name: str) -> Array:
    counts = _map(folder, index, name)
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def _table(folder: Path, index: _Index, info: CorpusInfo) -> GraphTable:
    axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
    for column in info.columns:
        values = _map(folder, index, column.name)
        axes[column.axis][column.name] = (
            Ragged(_pointers(folder, index, column.name + _PTR), values)
            if column.ragged
            else values
        )
    return GraphTable(
        node_ptr=_pointers(folder, index, "node"),
        edge_ptr=_pointers(folder, index, "edge"),
        graph=axes["graph"],
        node=axes["node"],
        edge=axes["edge"],
    )


class GraphRows:
    """Graphs as rows of bytes, so that one call gathers any of them, in any order.

    Arrow copies the values of a graph at once, and all columns without coming back to Python; NumPy
    copies node by node and edge by edge, and threads that gather with it wait for each other.
    """

    def __init__(self, table: GraphTable) -> None:
        self._table = table
        packed = {"node": _plain(table.num_nodes), "edge": _plain(table.num_edges)}
        for name, values in table.graph.items():
            if isinstance(values, Ragged):
                packed[name + _PTR] = _plain(np.diff(values.ptr))
                packed[name] = _lists(values.values, _offsets(values.ptr))
            else:
                packed[name] = _plain(values)
        for columns, ptr in ((table.node, table.node_ptr), (table.edge, table.edge_ptr)):
            offsets = _offsets(ptr)
            for name, values in columns.items():
                if isinstance(values, Ragged):
                    packed[name + _PTR] = _lists(np.diff(values.ptr), offsets)
                    packed[name] = _lists(values.values, _offsets(values.ptr[ptr]))
                else:
                    packed[name] = _lists(values, offsets)
        self._packed = pa.record_batch(packed)

    def gather(self, graphs: Ints) -> pa.RecordBatch:
        """Return the given graphs in the given order, still packed; a graph may come many times."""
        # Arrow sets aside the mean size of a row for each row and copies all again if that is not
        # enough, as it is not in half of all cases. Rows that are not there take no bytes.
        spare = pa.nulls(len(graphs) // SPARE + 1, pa.int64())
        wanted = pa.concat_arrays([pa.array(graphs, pa.int64()), spare])
        return self._packed.take(wanted).slice(0, len(graphs))

    def unpack(self, rows: pa.RecordBatch) -> GraphTable:
        """Return gathered graphs as a table that shares memory with ``rows``."""
        found = dict(zip(rows.schema.names, rows.columns, strict=True))
        count = np.empty(0, dtype=np.int64)

        def values_of(name: str, like: Values, length: int) -> Values:
            if not isinstance(like, Ragged):
                return _unpack(found[name], like, length)
            ptr = pointers(_unpack(found[name + _PTR], count, length))
            return Ragged(ptr, _unpack(found[name], like.values, int(ptr[-1])))

        node_ptr = pointers(_unpack(found["node"], count, len(rows)))
        edge_ptr = pointers(_unpack(found["edge"], count, len(rows)))
        old, nodes, edges = self._table, int(node_ptr[-1]), int(edge_ptr[-1])
        return GraphTable(
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            graph={name: values_of(name, like, len(rows)) for name, like in old.graph.items()},
            node={name: values_of(name, like, nodes) for name, like in old.node.items()},
            edge={name: values_of(name, like, edges) for name, like in old.edge.items()},
        )


def _plain(values: Array) -> pa.Array:
    """Return an array with one row per graph as Arrow sees bytes."""
    if not _row_bytes(values):
        return pa.nulls(len(values))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(_row_bytes(values)), len(values), buffers)


def _lists(values: Array, offsets: Callable[[int], pa.Buffer]) -> pa.Array:
    """Return an array with any number of rows per graph as Arrow sees bytes."""
    ends = offsets(_row_bytes(values))
    buffers = [None, ends, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.large_binary(), ends.size // 8 - 1, buffers)


def _offsets(ptr: Ints) -> Callable[[int], pa.Buffer]:
    """Return what gives pointers in bytes for a size of rows; columns with one size share them."""
    return cache(lambda row: pa.py_buffer(ptr * row))


def _row_bytes(values: Array) -> int:
    return values.dtype.itemsize * math.prod(values.shape[1:])


def _unpack(packed: pa.Array, like: Array, length: int) -> Array:
    """Return the bytes of all graphs as ``length`` rows of the type and shape of ``like``."""
    shape = (length, *like.shape[1:])
    if 0 in shape:
        return np.empty(shape, like.dtype)
    return np.frombuffer(packed.buffers()[-1], like.dtype, math.prod(shape)).reshape(shape)


def cached_digests() -> Sequence[str]:
    """Return the content digests that have a hot cache."""
    root = cache_root() / "hot"
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
