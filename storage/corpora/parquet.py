"""Shards as Parquet, readable by anything; the footer of a lone shard explains it."""

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
from gsx.storage.artifacts.location import Place
from gsx.storage.corpora.arrow import (
    FOOTER,
    SIZES,
    arrow_schema,
    from_arrow,
    graph_values,
    to_arrow,
)
from gsx.table import GraphTable, Values, concat, cut

ROW_GROUP = 4096
MAX_ROW_GROUP_BYTES = 8 << 30
"""Uncompressed size of a row group above which a shard is taken for a decompression bomb."""


def write_parquet(
    path: Path, parts: Iterable[GraphTable], info: CorpusInfo, *, row_group: int = ROW_GROUP
) -> None:
    """Write tables one after the other as one shard; however graphs are cut, bytes are the same."""
    schema = arrow_schema(info)
    stored = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[path for path, leaf in stored if not pa.types.is_floating(leaf)],
        use_byte_stream_split=[path for path, leaf in stored if pa.types.is_floating(leaf)],
        write_statistics=["graph_id", "split", "env_id", "domain_id", "origin", *SIZES],
        write_page_checksum=True,
        data_page_size=1 << 20,
        write_batch_size=1 << 16,  # values; Arrow's own 1024 costs a fifth of the time
    ) as writer:
        for part in cut(parts, row_group):
            writer.write_table(to_arrow(part, info, schema), row_group_size=row_group)


def read_info(file: pq.ParquetFile, where: str) -> CorpusInfo:
    """Return the corpus description in the footer of a shard."""
    metadata = file.schema_arrow.metadata or {}
    if FOOTER not in metadata:
        raise ArtifactError(f"{where} has no `gsx` entry in its footer: it is not a gsx shard.")
    try:
        info = msgspec.json.decode(metadata[FOOTER], type=CorpusInfo)
        expected = arrow_schema(info)
    except (msgspec.MsgspecError, pa.ArrowException, TableError, TypeError, ValueError) as error:
        raise ArtifactError(f"{where} has a footer this gsx cannot read: {error}") from error
    if not file.schema_arrow.equals(expected):
        raise ArtifactError(f"{where} has other columns than its footer describes.")
    return info


class ParquetShard:
    """One shard, open for reading."""

    def __init__(self, place: Place, name: str, *, rows: int | None = None) -> None:
        self.where = f"{place.url}/{name}"
        source: Any = place.open(name) if place.local is None else str(place.local / name)
        try:
            # Not mapped into memory: pages of every shard read would stay with the process.
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
            self._alone = Lock()  # Arrow crashes when two threads read from one open file
            self.info = read_info(self._file, self.where)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise ArtifactError(f"{self.where} cannot be read as Parquet: {error}") from error
        self._check(rows)

    def _check(self, rows: int | None) -> None:
        metadata = self._file.metadata
        if rows is not None and metadata.num_rows != rows:
            raise ArtifactError(
                f"{self.where} holds {metadata.num_rows} graphs; the manifest says {rows}"
            )
        if sum(self.groups) != metadata.num_rows:
            raise ArtifactError(
                f"{self.where} is damaged: its row groups hold {sum(self.groups)} graphs, "
                f"its footer says {metadata.num_rows}"
            )
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).total_byte_size
            if size > MAX_ROW_GROUP_BYTES:
                raise ArtifactError(
                    f"{self.where}: row group {group} would unpack to {size} bytes; refused"
                )

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def groups(self) -> list[int]:
        """Graphs in each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def read(self, names: Sequence[str] | None = None, group: int | None = None) -> GraphTable:
        """Return the shard, or one row group of it, with the named columns or all."""
        if group is None and self.groups:
            return concat(list(self.iter_groups(names)))
        wanted = self.info.columns if names is None else _wanted(self.info, names)
        paths = [*SIZES, *(column.name for column in wanted)]
        try:
            with self._alone:
                if group is None:
                    arrow = self._file.read(columns=paths)
                else:
                    arrow = self._file.read_row_group(group, columns=paths)
            arrow.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return from_arrow(arrow, wanted, self.where)

    def graph_columns(self, names: Sequence[str]) -> dict[str, Values]:
        """Return columns of graphs, and how large graphs are, without reading nodes or edges."""
        wanted = [self.info.column(name) for name in names]
        try:
            with self._alone:
                arrow = self._file.read(columns=[*SIZES, *names])
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return graph_values(arrow, wanted, self.where)

    def iter_groups(self, names: Sequence[str] | None = None) -> Iterator[GraphTable]:
        """Yield one table per row group."""
        for group in range(self._file.metadata.num_row_groups):
            yield self.read(names, group)


def _wanted(info: CorpusInfo, names: Sequence[str]) -> tuple[Column, ...]:
    chosen = {*names, "edge_src", "edge_dst"}
    return tuple(column for column in info.columns if column.name in chosen)


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and type of every column Parquet stores for one Arrow field."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind
