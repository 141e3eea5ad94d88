"""The hot cache: a corpus as plain arrays on the local disk, memory-mapped.

It is made once per content digest, in the user's cache folder, and is what training and random
access read from. It can always be made again from the corpus, so it is never shared or trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from filelock import FileLock

from gsx.columns import Axis, CorpusInfo
from gsx.errors import ArtifactError
from gsx.ragged import Array, Ragged
from gsx.storage.digest import readable_json
from gsx.storage.disk import explained, remove_tree
from gsx.storage.trust import cache_root
from gsx.table import GraphTable, Values

INDEX = "index.json"
VERSION = 1
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
    if index is None or index.version != VERSION or not _whole(folder, index):
        remove_tree(folder)  # damaged or of another version: it is made again when needed
        return None
    return _table(folder, index, info)


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
    try:
        writer = _Writer(draft)
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


def _whole(folder: Path, index: _Index) -> bool:
    return all(
        (folder / name).is_file()
        and (folder / name).stat().st_size
        == int(np.prod(stored.shape)) * np.dtype(stored.dtype).itemsize
        for name, stored in index.arrays.items()
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


def cached_digests() -> Sequence[str]:
    """Return the content digests that have a hot cache."""
    root = cache_root() / "hot"
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
