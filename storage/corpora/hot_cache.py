"""Hot cache: memory-mapped arrays of a corpus in the user's cache directory.

The cache is built once per content digest. Training and random access read from it. It can always
be rebuilt from the corpus, so it is never shared, and a damaged cache is deleted. Files are named
by number and opened like those of an artifact: regular files only, not behind links. Pointers are
checked when the cache is opened, so that no table refers to memory outside the files. Edges are
checked by the code that uses them as indices.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
from filelock import FileLock

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import Axis, CorpusInfo
from gsx.storage.artifacts.atomic_files import remove_tree, translate_os_errors
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.safe_files import append_text, open_regular, remove_beneath, stamp_of
from gsx.storage.artifacts.verification_cache import cache_root
from gsx.table import GraphTable, Values

INDEX = "index.json"
VERSION = 2
MAX_INDEX_BYTES = 1 << 20
SPARE_EVERY = 32
"""Over-allocate one mean-sized row per ``SPARE_EVERY`` gathered rows."""

_PTR = ".ptr"
_MAX_RECORD = 1 << 20


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Type and shape of one raw array file."""

    dtype: str
    shape: tuple[Annotated[int, msgspec.Meta(ge=0, le=1 << 48)], ...]


class _Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    arrays: dict[str, _Stored]
    """Arrays by name."""


def hot_cache_dir(digest: str) -> Path:
    """Return the directory of the hot cache of a content digest, whether or not it exists."""
    return cache_root() / "hot" / digest


def open_hot_cache(digest: str, info: CorpusInfo, corpus: Path | None = None) -> GraphTable | None:
    """Return the cached corpus as one memory-mapped table, or None without a valid cache."""
    root, folder = cache_root(), f"hot/{digest}"
    try:
        with open_regular(root, f"{folder}/{INDEX}") as file:
            index = typed_values.decode_json(file.read(MAX_INDEX_BYTES), _Index)
        if index.version == VERSION and _has_all_arrays(index, info):
            table = _table(root, folder, index, info)
            if table is not None and _is_consistent(table):
                record_corpus(digest, corpus)
                return table
    except FileNotFoundError:
        if not hot_cache_dir(digest).exists():
            return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError, ArtifactError):
        pass
    remove_beneath(root, folder)  # damaged or of another version: rebuilt when needed
    return None


def build_hot_cache(
    digest: str, info: CorpusInfo, tables: Iterable[GraphTable], corpus: Path | None = None
) -> GraphTable:
    """Write the tables of a corpus, in order, as one cache and return it.

    One table is in memory at a time. ``corpus`` is the local directory of the corpus.
    """
    folder = hot_cache_dir(digest)
    with translate_os_errors(str(folder), consequence="The corpus itself is untouched."):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            table = open_hot_cache(digest, info, corpus)
            if table is None:
                _write(folder, info, tables)
                table = open_hot_cache(digest, info, corpus)
    if table is None:
        raise ArtifactError(f"the cache at {folder} cannot be read; delete it and try again")
    return table


def _write(folder: Path, info: CorpusInfo, tables: Iterable[GraphTable]) -> None:
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    remove_tree(draft)
    draft.mkdir()
    writer = _Writer(draft, _file_names(info))
    try:
        for table in tables:
            writer.append("node", table.num_nodes)
            writer.append("edge", table.num_edges)
            for column in info.columns:
                values = table.columns(column.axis)[column.name]
                if isinstance(values, Ragged):
                    writer.append(column.name + _PTR, np.diff(values.ptr))
                    writer.append(column.name, values.values)
                else:
                    writer.append(column.name, values)
        arrays = writer.close()
        (draft / INDEX).write_bytes(readable_json(_Index(VERSION, arrays)))
        draft.rename(folder)
    finally:
        try:
            writer.close()  # fails on a full disk
        finally:
            remove_tree(draft)


class _Writer:
    """Appends arrays to raw files, one file per name; the files are numbered."""

    def __init__(self, folder: Path, file_names: Mapping[str, str]) -> None:
        self._folder, self._file_names = folder, file_names
        self._open: dict[str, BinaryIO] = {}
        self._arrays: dict[str, _Stored] = {}

    def append(self, name: str, values: Array) -> None:
        if name not in self._open:
            self._open[name] = (self._folder / self._file_names[name]).open("wb")
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


def _file_names(info: CorpusInfo) -> dict[str, str]:
    """Return the file of every array, named by position."""
    return {name: f"{number:04}.bin" for number, name in enumerate(_row_types(info))}


def _has_all_arrays(index: _Index, info: CorpusInfo) -> bool:
    """Return whether the index lists every array of the corpus with its type."""
    expected = _row_types(info)
    return index.arrays.keys() == expected.keys() and all(
        stored.dtype == expected[name].dtype
        and len(stored.shape) == len(expected[name].shape) + 1
        and stored.shape[1:] == expected[name].shape
        for name, stored in index.arrays.items()
    )


def _row_types(info: CorpusInfo) -> dict[str, _Stored]:
    """Return dtype and row shape of every array in the cache of a corpus."""
    count = _Stored(np.dtype("int64").str, ())
    rows = {"node": count, "edge": count}
    for column in info.columns:
        dtype = np.dtype("uint8" if column.dtype == "text" else column.dtype)
        if column.ragged:
            rows[column.name + _PTR] = count
        rows[column.name] = _Stored(dtype.str, () if column.width is None else (column.width,))
    return rows


def _is_consistent(table: GraphTable) -> bool:
    """Return whether all lengths match; values are not read, which would load them from disk."""
    rows: dict[Axis, int] = {
        "graph": len(table),
        "node": table.total_nodes,
        "edge": table.total_edges,
    }
    return len(table.edge_ptr) == len(table.node_ptr) and all(
        len(values) == count
        and (not isinstance(values, Ragged) or values.ptr[-1] == len(values.values))
        for axis, count in rows.items()
        for values in table.columns(axis).values()
    )


def _map(root: Path, name: str, stored: _Stored) -> Array:
    """Return a file as a memory-mapped array; raise ArtifactError if it has another size."""
    with open_regular(root, name) as file:
        size = math.prod(stored.shape) * np.dtype(stored.dtype).itemsize
        if stamp_of(file).size != size:
            raise ArtifactError(f"{root / name} does not have {size} bytes")
        if not size:
            return np.zeros(stored.shape, stored.dtype)
        mapped = np.memmap(file, dtype=stored.dtype, mode="r", shape=stored.shape)
        return mapped.view(np.ndarray)


def _sum_counts(counts: Array) -> Ints | None:
    """Return pointers from counts, or None if a count is negative or a sum overflows."""
    ptr = pointers(counts)
    return None if counts.min(initial=0) < 0 or ptr.min() < 0 else ptr


def _table(root: Path, folder: str, index: _Index, info: CorpusInfo) -> GraphTable | None:
    """Return the cached arrays as a table, or None if counts are no lengths."""
    axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
    file_names = _file_names(info)
    arrays = {
        name: _map(root, f"{folder}/{file}", index.arrays[name])
        for name, file in file_names.items()
    }
    node_ptr, edge_ptr = _sum_counts(arrays["node"]), _sum_counts(arrays["edge"])
    for column in info.columns:
        values = arrays[column.name]
        ptr = _sum_counts(arrays[column.name + _PTR]) if column.ragged else None
        if column.ragged and ptr is None:
            return None
        axes[column.axis][column.name] = values if ptr is None else Ragged(ptr, values)
    if node_ptr is None or edge_ptr is None:
        return None
    return GraphTable(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        graph=axes["graph"],
        node=axes["node"],
        edge=axes["edge"],
    )


class PackedGraphs:
    """Graphs packed as binary rows of an Arrow record batch, for fast gathering in any order.

    Arrow copies all values of a graph at once, and all columns without returning to Python. NumPy
    copies node by node and edge by edge, and holds the GIL meanwhile.
    """

    def __init__(self, table: GraphTable) -> None:
        self._table = table
        packed = {"node": _fixed_size(table.num_nodes), "edge": _fixed_size(table.num_edges)}
        for name, values in table.graph.items():
            if isinstance(values, Ragged):
                packed[name + _PTR] = _fixed_size(np.diff(values.ptr))
                packed[name] = _variable_size(values.values, _offsets(values.ptr))
            else:
                packed[name] = _fixed_size(values)
        for columns, ptr in ((table.node, table.node_ptr), (table.edge, table.edge_ptr)):
            offsets = _offsets(ptr)
            for name, values in columns.items():
                if isinstance(values, Ragged):
                    packed[name + _PTR] = _variable_size(np.diff(values.ptr), offsets)
                    packed[name] = _variable_size(values.values, _offsets(values.ptr[ptr]))
                else:
                    packed[name] = _variable_size(values, offsets)
        self._packed = pa.record_batch(packed)

    def gather(self, graphs: Ints) -> pa.RecordBatch:
        """Return the given graphs in the given order, still packed; repetitions are allowed."""
        # Arrow allocates the mean row size per row and reallocates if that is too little, which
        # happens in half of all cases. Extra null rows enlarge the allocation and use no bytes.
        spare = pa.nulls(len(graphs) // SPARE_EVERY + 1, pa.int64())
        wanted = pa.concat_arrays([pa.array(graphs, pa.int64()), spare])
        return self._packed.take(wanted).slice(0, len(graphs))

    def unpack(self, rows: pa.RecordBatch) -> GraphTable:
        """Return gathered graphs as a table that shares memory with ``rows``."""
        packed = dict(zip(rows.schema.names, rows.columns, strict=True))
        count = np.empty(0, dtype=np.int64)

        def unpack_column(name: str, like: Values, length: int) -> Values:
            if not isinstance(like, Ragged):
                return _unpack(packed[name], like, length)
            ptr = pointers(_unpack(packed[name + _PTR], count, length))
            return Ragged(ptr, _unpack(packed[name], like.values, int(ptr[-1])))

        node_ptr = pointers(_unpack(packed["node"], count, len(rows)))
        edge_ptr = pointers(_unpack(packed["edge"], count, len(rows)))
        source, nodes, edges = self._table, int(node_ptr[-1]), int(edge_ptr[-1])
        return GraphTable(
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            graph={k: unpack_column(k, like, len(rows)) for k, like in source.graph.items()},
            node={k: unpack_column(k, like, nodes) for k, like in source.node.items()},
            edge={k: unpack_column(k, like, edges) for k, like in source.edge.items()},
        )


def _fixed_size(values: Array) -> pa.Array:
    """Return an array with one row per graph as fixed-size Arrow binary."""
    if not _row_bytes(values):
        return pa.nulls(len(values))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(_row_bytes(values)), len(values), buffers)


def _variable_size(values: Array, offsets: Callable[[int], pa.Buffer]) -> pa.Array:
    """Return an array with any number of rows per graph as variable-size Arrow binary."""
    byte_offsets = offsets(_row_bytes(values))
    buffers = [None, byte_offsets, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.large_binary(), byte_offsets.size // 8 - 1, buffers)


def _offsets(ptr: Ints) -> Callable[[int], pa.Buffer]:
    """Return a cached function from row size in bytes to byte offsets."""
    return cache(lambda row_bytes: pa.py_buffer(ptr * row_bytes))


def _row_bytes(values: Array) -> int:
    return values.dtype.itemsize * math.prod(values.shape[1:])


def _unpack(packed: pa.Array, like: Array, length: int) -> Array:
    """Return the bytes of all graphs as ``length`` rows with dtype and row shape of ``like``."""
    shape = (length, *like.shape[1:])
    if 0 in shape:
        return np.empty(shape, like.dtype)
    return np.frombuffer(packed.buffers()[-1], like.dtype, math.prod(shape)).reshape(shape)


def record_path(digest: str) -> Path:
    """Return the file that lists the corpora that use a cache."""
    return hot_cache_dir(digest).with_suffix(".corpora")


def record_corpus(digest: str, corpus: Path | None) -> None:
    """Record the local directory of a corpus that uses a cache, so that `gsx gc` keeps the cache.

    The record is a convenience: without it, a cache is built again.
    """
    if corpus is None or not hot_cache_dir(digest).is_dir():
        return
    with contextlib.suppress(OSError, ArtifactError):
        if str(corpus.absolute()) not in _recorded(digest):
            line = json.dumps(str(corpus.absolute())) + "\n"
            append_text(cache_root(), f"hot/{record_path(digest).name}", line)


def is_used(digest: str) -> bool:
    """Return whether a recorded corpus of a cache still exists in a local directory."""
    recorded = _recorded(digest)
    return any((Path(corpus) / MANIFEST).is_file() for corpus in recorded)


def _recorded(digest: str) -> list[str]:
    """Return the corpora in the record of a cache; lines that are no text in JSON are ignored."""
    corpora: list[object] = []
    with contextlib.suppress(OSError, ArtifactError):
        with open_regular(cache_root(), f"hot/{record_path(digest).name}") as file:
            lines = file.read(_MAX_RECORD).splitlines()
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                corpora.append(json.loads(line))
    return [corpus for corpus in corpora if isinstance(corpus, str) and "\0" not in corpus]


def cached_digests() -> Sequence[str]:
    """Return the content digests with a hot cache."""
    root = cache_root() / "hot"
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
