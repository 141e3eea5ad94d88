"""Shards as Zarr v3: the same content as concatenated arrays and pointers, one group per shard.

A group is written by one worker. Its attributes carry the corpus description and, for columns of
words, the vocabulary their codes refer to. Metadata from elsewhere is checked before Zarr sees it:
only plain numbers, the `bytes`, `zstd` and `crc32c` codecs, and regular chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zarr
from zarr.codecs import ZstdCodec
from zarr.storage import FsspecStore, LocalStore

from gsx.columns import Axis, Column, CorpusInfo
from gsx.errors import ArtifactError, TableError
from gsx.ragged import Array, Ragged
from gsx.storage.place import Place
from gsx.table import GraphTable, Values

CHUNK_ROWS = 131_072
MAX_METADATA_BYTES = 64 << 20
_CODECS = {"bytes", "zstd", "crc32c"}
_KINDS = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
          "float32", "float64"}  # fmt: skip
_PTR = ".ptr"


def write_zarr(path: Path, table: GraphTable, info: CorpusInfo) -> None:
    """Write ``table`` as one group; equal tables give equal bytes."""
    group = zarr.open_group(LocalStore(path), mode="w", zarr_format=3)
    group.attrs["gsx"] = msgspec.to_builtins(info)
    _put(group, "node_ptr", table.node_ptr)
    _put(group, "edge_ptr", table.edge_ptr)
    for column in info.columns:
        values = table.columns(column.axis)[column.name]
        if isinstance(values, Ragged):
            _put(group, column.name + _PTR, values.ptr)
            _put(group, column.name, values.values)
        else:
            _put(group, column.name, values)


def _put(group: zarr.Group, name: str, values: Array) -> None:
    shape = (min(max(len(values), 1), CHUNK_ROWS), *values.shape[1:])
    array = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=shape,
        compressors=ZstdCodec(level=1),
        fill_value=0,
    )
    array[...] = values


class ZarrShard:
    """One shard, open for reading."""

    def __init__(self, place: Place, name: str, *, rows: int | None = None) -> None:
        self.where = f"{place.url}/{name}"
        inner = place.child(name)
        _check_metadata(inner)
        store: Any = (
            LocalStore(inner.local, read_only=True)
            if inner.local is not None
            else FsspecStore.from_url(inner.url, read_only=True)
        )
        try:
            self._group = zarr.open_group(store, mode="r", zarr_format=3)
            self.info = msgspec.convert(dict(self._group.attrs)["gsx"], CorpusInfo)
        except (KeyError, ValueError, msgspec.ValidationError) as error:
            raise ArtifactError(f"{self.where} is not a gsx Zarr group: {error}") from error
        if rows is not None and len(self) != rows:
            raise ArtifactError(f"{self.where} holds {len(self)} graphs; the manifest says {rows}")

    def __len__(self) -> int:
        return int(self._array("node_ptr").shape[0]) - 1

    @property
    def groups(self) -> list[int]:
        """Graphs in each part that is read at once: a Zarr shard is read whole."""
        return [len(self)]

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> GraphTable:
        """Return the shard with the named columns or all."""
        del group  # a Zarr shard has one group only
        wanted = None if names is None else {*names, "edge_src", "edge_dst"}
        axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
        for column in self.info.columns:
            if wanted is None or column.name in wanted:
                axes[column.axis][column.name] = self._column(column)
        table = GraphTable(
            node_ptr=self._numbers("node_ptr"),
            edge_ptr=self._numbers("edge_ptr"),
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
        values = self._numbers(column.name)
        return Ragged(self._numbers(column.name + _PTR), values) if column.ragged else values

    def _array(self, name: str) -> zarr.Array[Any]:
        found = self._group.get(name)
        if not isinstance(found, zarr.Array):
            raise ArtifactError(f"{self.where} has no array `{name}`")
        return found

    def _numbers(self, name: str) -> Array:
        try:
            return np.asarray(self._array(name)[...])
        except (ValueError, RuntimeError, OSError) as error:
            raise ArtifactError(f"{self.where}/{name} is damaged: {error}") from error


def _check_metadata(group: Place) -> None:
    """Refuse arrays whose metadata asks for anything but plain compressed numbers."""
    for path in group.sizes():
        if not path.endswith("zarr.json"):
            continue
        where = f"{group.url}/{path}"
        try:
            metadata = json.loads(group.read_bytes(path, limit=MAX_METADATA_BYTES))
            if metadata["node_type"] == "group":
                continue
            codecs = {codec["name"] for codec in metadata["codecs"]}
            kind, grid = metadata["data_type"], metadata["chunk_grid"]["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{where} is not Zarr v3 metadata: {error!r}") from error
        if not codecs <= _CODECS or kind not in _KINDS or grid != "regular":
            raise ArtifactError(
                f"{where} asks for codecs {sorted(codecs)}, type {kind} and grid {grid!r}; "
                "gsx reads only plain numbers compressed with zstd."
            )
