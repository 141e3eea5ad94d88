"""Shards as standard Parquet files; the footer of each shard describes the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gsx.errors import ArtifactError, TableError
from gsx.schema import Column, CorpusInfo
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.arrow import (
    FOOTER,
    SIZES,
    arrow_schema,
    from_arrow,
    graph_values,
    to_arrow,
)
from gsx.table import GraphTable, Values, concat, rechunk

ROW_GROUP = 4096
MAX_ROW_GROUP_BYTES = 8 << 30
"""Uncompressed size of a row group above which a shard is rejected as a decompression bomb."""


def write_parquet(
    path: Path, tables: Iterable[GraphTable], info: CorpusInfo, *, row_group: int = ROW_GROUP
) -> None:
    """Write consecutive tables as one shard; the bytes do not depend on the sizes of the tables."""
    schema = arrow_schema(info)
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[path for path, leaf in leaves if not pa.types.is_floating(leaf)],
        use_byte_stream_split=[path for path, leaf in leaves if pa.types.is_floating(leaf)],
        write_statistics=["graph_id", "split", "env_id", "domain_id", "origin", *SIZES],
        write_page_checksum=True,
        data_page_size=1 << 20,
        write_batch_size=1 << 16,  # values; Arrow's default of 1024 is 20 % slower
    ) as writer:
        for table in rechunk(tables, row_group):
            writer.write_table(to_arrow(table, info, schema), row_group_size=row_group)


def read_info(file: pq.ParquetFile, where: str) -> CorpusInfo:
    """Return the corpus description in the footer of a shard."""
    metadata = file.schema_arrow.metadata or {}
    if FOOTER not in metadata:
        raise ArtifactError(f"{where} has no `gsx` entry in its footer: it is not a gsx shard.")
    try:
        info = msgspec.json.decode(metadata[FOOTER], type=CorpusInfo)
        expected = arrow_schema(info)
    except (msgspec.MsgspecError, pa.ArrowException, TableError, TypeError, ValueError) as error:
        raise ArtifactError(f"{where} has a `gsx` footer that cannot be read: {error}") from error
    if not file.schema_arrow.equals(expected):
        raise ArtifactError(f"{where} has columns that do not match its footer.")
    return info


class ParquetShard:
    """One shard, open for reading."""

    def __init__(self, location: Location, name: str, *, rows: int | None = None) -> None:
        self.where = f"{location.url}/{name}"
        source: Any = location.open(name) if location.local is None else str(location.local / name)
        try:
            # Not memory-mapped: the pages of all shards read would count as process memory.
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
            self._lock = Lock()  # Arrow crashes if two threads read from one open file
            self.info = read_info(self._file, self.where)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise ArtifactError(f"{self.where} cannot be read as Parquet: {error}") from error
        self._check(rows)

    def _check(self, rows: int | None) -> None:
        metadata = self._file.metadata
        if rows is not None and metadata.num_rows != rows:
            raise ArtifactError(
                f"{self.where} holds {metadata.num_rows} graphs; the manifest lists {rows}"
            )
        if sum(self.groups) != metadata.num_rows:
            raise ArtifactError(
                f"{self.where} is damaged: its row groups hold {sum(self.groups)} graphs, "
                f"its footer lists {metadata.num_rows}"
            )
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).total_byte_size
            if size > MAX_ROW_GROUP_BYTES:
                raise ArtifactError(
                    f"{self.where}: row group {group} would decompress to {size} bytes, "
                    f"above the limit of {MAX_ROW_GROUP_BYTES}"
                )

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def groups(self) -> list[int]:
        """Graphs in each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> GraphTable:
        """Return the shard or one of its row groups, with the named columns or all columns."""
        if group is None and self.groups:
            return concat(list(self.iter_groups(names)))
        columns = self.info.columns if names is None else _select(self.info, names)
        paths = [*SIZES, *(column.name for column in columns)]
        try:
            with self._lock:
                if group is None:
                    arrow = self._file.read(columns=paths)
                else:
                    arrow = self._file.read_row_group(group, columns=paths)
            arrow.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return from_arrow(arrow, columns, self.where)

    def graph_columns(self, names: Sequence[str]) -> dict[str, Values]:
        """Return graph columns, ``num_nodes`` and ``num_edges`` without reading nodes or edges."""
        columns = [self.info.column(name) for name in names]
        try:
            with self._lock:
                arrow = self._file.read(columns=[*SIZES, *names])
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return graph_values(arrow, columns, self.where)

    def iter_groups(self, names: Sequence[str] | None = None) -> Iterator[GraphTable]:
        """Yield one table per row group."""
        for group in range(self._file.metadata.num_row_groups):
            yield self.read(names, group)


def _select(info: CorpusInfo, names: Sequence[str]) -> tuple[Column, ...]:
    chosen = {*names, "edge_src", "edge_dst"}
    return tuple(column for column in info.columns if column.name in chosen)


def _leaves(path: str, data_type: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield path and type of every Parquet column of one Arrow field."""
    if pa.types.is_struct(data_type):
        for field in data_type:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        yield from _leaves(f"{path}.list.element", data_type.value_type)
    else:
        yield path, data_type
