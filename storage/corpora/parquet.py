"""Shards as standard Parquet files; the footer of each shard describes the corpus."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gsx.errors import ArtifactError
from gsx.schema import Column, CorpusInfo
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.arrow import SIZES, arrow_schema, from_arrow, graph_values, to_arrow
from gsx.storage.corpora.limits import NO_EXTENT, Extent, read_limit
from gsx.storage.corpora.parquet_footer import (
    MAX_LIST_ITEMS,
    MAX_STRING_BYTES,
    ShardSchema,
    check_footer_size,
    check_sizes,
    column_chunks,
    leaves,
    read_schema,
)
from gsx.storage.corpora.parquet_pages import check_pages
from gsx.storage.corpora.range_cache import RangeCache
from gsx.table import GraphTable, Values, concat, rechunk

ROW_GROUP = 4096
_MAX_SCHEMA_DEPTH = 16


def write_parquet(
    path: Path, tables: Iterable[GraphTable], info: CorpusInfo, *, row_group: int = ROW_GROUP
) -> None:
    """Write consecutive tables as one shard; the bytes do not depend on the sizes of the tables."""
    schema = arrow_schema(info)
    columns = list(leaves(schema))
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[leaf.path for leaf in columns if not pa.types.is_floating(leaf.type)],
        use_byte_stream_split=[leaf.path for leaf in columns if pa.types.is_floating(leaf.type)],
        write_statistics=["graph_id", "split", "env_id", "domain_id", "origin", *SIZES],
        write_page_checksum=True,
        data_page_size=1 << 20,
        write_batch_size=1 << 16,  # values; Arrow's default of 1024 is 20 % slower
    ) as writer:
        for table in rechunk(tables, row_group):
            writer.write_table(to_arrow(table, info, schema), row_group_size=row_group)


class ParquetShard:
    """One shard, open for reading.

    ``expected`` is the schema of the corpus; without it, the footer describes the shard. Decoded
    sizes are checked before Arrow allocates anything; ``extent`` returns the rows of the split.
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
        self._lock = Lock()  # Arrow crashes if two threads read from one open file
        self._checked: dict[int, set[str]] = {}
        try:
            self._stream = _seekable(location.open(name))
            weakref.finalize(self, self._stream.close)
            self._size = check_footer_size(self._stream, expected, self.where)
            if expected is None:
                expected = read_schema(_open(self._stream, None), None, self.where)
            self._file = _open(self._stream, expected)
            self._schema = read_schema(self._file, expected, self.where)
        except KeyError as error:  # of a text column
            raise ArtifactError(
                f"{self.where} has no column {error}, which corpus.json describes. Get the "
                "artifact from its source again."
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ArtifactError(f"{self.where} cannot be read as Parquet: {error}") from error
        self._check(rows, extent)

    @property
    def info(self) -> CorpusInfo:
        """Description of the corpus."""
        return self._schema.info

    def _check(self, rows: int | None, extent: Callable[[], Extent]) -> None:
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
        check_sizes(metadata, self._schema, self._size, self.where, extent)

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
        arrow = self._read([column.name for column in columns], group)
        return from_arrow(arrow, columns, self.where, read_limit(self._size))

    def graph_columns(self, names: Sequence[str]) -> dict[str, Values]:
        """Return graph columns, ``num_nodes`` and ``num_edges`` without reading nodes or edges."""
        columns = [self.info.column(name) for name in names]
        return graph_values(self._read(names, None), columns, self.where, read_limit(self._size))

    def _read(self, names: Sequence[str], group: int | None) -> pa.Table:
        """Return columns and sizes of a row group, or of all."""
        paths = [*SIZES, *names]
        try:
            with self._lock:
                arrow = self._read_checked(paths, group)
            arrow.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return arrow

    def _read_checked(self, paths: Sequence[str], group: int | None) -> pa.Table:
        """Check the pages of columns in a row group, or in all, and decode them."""
        groups = range(self._file.metadata.num_row_groups) if group is None else (group,)
        try:
            for index in groups:
                self._check_pages(index, paths)
            if group is None:
                return self._file.read(columns=paths)
            return self._file.read_row_group(group, columns=paths)
        finally:
            if isinstance(self._stream, RangeCache):
                self._stream.release()

    def _check_pages(self, group: int, names: Sequence[str]) -> None:
        """Compare page headers with the footer: once per column, or at every read of a remote file.

        A server may send other bytes the next time, so remote pages are held until they are
        decoded.
        """
        wanted = set(names)
        descriptor = _descriptor(self._stream)
        if descriptor is not None:
            wanted -= self._checked.setdefault(group, set())
        if not wanted:
            return
        chunks = list(column_chunks(self._file.metadata, self._schema, group, wanted))
        for chunk in chunks:
            if min(chunk.start, chunk.size) < 0 or chunk.start + chunk.size > self._size:
                raise ArtifactError(
                    f"{self.where} is damaged: the pages of `{chunk.name}` are outside of the file"
                )
        if isinstance(self._stream, RangeCache):
            self._stream.hold((chunk.start, chunk.size) for chunk in chunks)
            read = self._stream.read_at
        else:
            assert descriptor is not None
            read = partial(_read_local, descriptor)
        for chunk in chunks:
            if not chunk.is_bounded:
                check_pages(chunk, read, self.where)
        if descriptor is not None:
            self._checked[group] |= wanted

    def iter_groups(self, names: Sequence[str] | None = None) -> Iterator[GraphTable]:
        """Yield one table per row group."""
        for group in range(self._file.metadata.num_row_groups):
            yield self.read(names, group)


def _select(info: CorpusInfo, names: Sequence[str]) -> tuple[Column, ...]:
    chosen = {*names, "edge_src", "edge_dst"}
    return tuple(column for column in info.columns if column.name in chosen)


def _open(stream: BinaryIO | RangeCache, expected: ShardSchema | None) -> pq.ParquetFile:
    # Not memory-mapped: the pages of all shards read would count as process memory.
    return pq.ParquetFile(
        _arrow_source(stream),
        page_checksum_verification=True,
        read_dictionary=None if expected is None else expected.text_columns,
        thrift_string_size_limit=MAX_STRING_BYTES,
        thrift_container_size_limit=MAX_LIST_ITEMS,
        schema_depth_limit=_MAX_SCHEMA_DEPTH,
    )


def _arrow_source(stream: BinaryIO | RangeCache) -> Any:  # noqa: ANN401
    """Return the open file as a source that Arrow reads without Python, where the system can."""
    path = f"/proc/self/fd/{_descriptor(stream)}"
    return pa.OSFile(path) if os.path.exists(path) else stream  # noqa: PTH110


def _seekable(stream: BinaryIO) -> BinaryIO | RangeCache:
    """Return a local file as it is, and a remote file with a cache of ranges."""
    return RangeCache(stream) if _descriptor(stream) is None else stream


def _read_local(descriptor: int, start: int, size: int) -> bytes:
    return os.pread(descriptor, size, start)


def _descriptor(stream: BinaryIO | RangeCache) -> int | None:
    """Return the descriptor of a local file, or None."""
    try:
        return stream.fileno()
    except (AttributeError, OSError):  # a remote file
        return None
