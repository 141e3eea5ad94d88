"""Checks of a Parquet file before Arrow reads it: its footer, its schema, and decoded sizes."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.schema import TEXT, CorpusInfo
from gsx.storage.artifacts.digest import canonical_json
from gsx.storage.corpora.arrow import FOOTER, arrow_schema
from gsx.storage.corpora.limits import (
    Extent,
    check_decoded,
    fixed_columns,
    read_limit,
    shard_limit,
)
from gsx.storage.corpora.parquet_pages import Chunk
from gsx.storage.corpora.range_cache import RangeCache

MAX_FOOTER_BYTES = 16 << 20
"""Size of a footer, without the copies of the corpus description, above which it is refused."""
MAX_INFO_BYTES = 64 << 20
"""Size of a corpus description."""
MAX_STRING_BYTES, MAX_LIST_ITEMS = 4 * MAX_INFO_BYTES, 100_000
"""Sizes of strings and lists inside a footer."""

_TAIL = 64 << 10
_SMALL_CHUNK = 4 << 10
"""Bytes of a chunk that cannot decode to more than 128 MiB."""
_LEVEL_BYTES = 4
"""Memory of the two nesting levels of a value in a list."""


@dataclass(frozen=True)
class Leaf:
    """One Parquet column: all numbers of a gsx column, without their nesting."""

    path: str
    type: pa.DataType
    nested: bool

    @cached_property
    def column(self) -> str:
        """The name of the gsx column."""
        return self.path.partition(".list.element")[0]

    @cached_property
    def value_bytes(self) -> int:
        """Memory of one decoded value; a word in a dictionary is decoded once."""
        is_coded = pa.types.is_dictionary(self.type) or pa.types.is_string(self.type)
        width = 4 if is_coded else self.type.bit_width // 8
        return width + _LEVEL_BYTES if self.nested else width


@dataclass(frozen=True)
class ShardSchema:
    """Schema that every shard of a corpus must have."""

    info: CorpusInfo

    @cached_property
    def footer(self) -> bytes:
        """The corpus description as in a footer."""
        return canonical_json(self.info)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, with text as dictionaries."""
        schema = arrow_schema(self.info)
        for index, field in enumerate(schema):
            schema = schema.set(index, field.with_type(_with_dictionaries(field.type)))
        return schema

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The Parquet columns."""
        return tuple(leaves(arrow_schema(self.info)))

    @cached_property
    def text_columns(self) -> list[str]:
        """Names of text columns, which are read as dictionaries."""
        return [column.name for column in self.info.columns if column.dtype == TEXT]


def check_footer_size(stream: BinaryIO | RangeCache, schema: ShardSchema | None, where: str) -> int:
    """Return the size of a file; raise ArtifactError if its footer is too large to parse.

    The footer contains the corpus description twice, once as text in base 64.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - _TAIL))
    tail = stream.read(_TAIL)
    stream.seek(0)
    if len(tail) < 12 or tail[-4:] != b"PAR1":
        raise ArtifactError(f"{where} cannot be read as Parquet: it has no footer.")
    length = int.from_bytes(tail[-8:-4], "little")
    info_bytes = MAX_INFO_BYTES if schema is None else len(schema.footer)
    limit = min(size, MAX_FOOTER_BYTES + 4 * info_bytes)
    if length > limit:
        raise ArtifactError(
            f"{where} has a footer of {length:,} bytes, above the limit of {limit:,} bytes. "
            "Nothing was read."
        )
    return size


def read_schema(file: pq.ParquetFile, expected: ShardSchema | None, where: str) -> ShardSchema:
    """Return the schema of a shard, which must agree with that of the corpus if it is given.

    Without ``expected``, columns are not compared with the footer.
    """
    schema = file.schema_arrow
    metadata = schema.metadata or {}
    if FOOTER not in metadata:
        raise ArtifactError(f"{where} has no `gsx` entry in its footer: it is not a gsx shard.")
    if expected is None or metadata[FOOTER] != expected.footer:
        try:
            stored = typed_values.decode_json(metadata[FOOTER], CorpusInfo)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ArtifactError(
                f"{where} has a `gsx` footer that cannot be read: {error}"
            ) from error
        if expected is None:
            return ShardSchema(stored)
        check_same_corpus(stored, expected.info, where)
    if not schema.equals(expected.arrow):
        raise ArtifactError(f"{where} has columns that do not match its footer.")
    return expected


def check_same_corpus(stored: CorpusInfo, info: CorpusInfo, where: str) -> None:
    """Raise ArtifactError if the description in a shard disagrees with that of the corpus.

    A shard of the source corpus may have fewer environments and another text.
    """
    free = {"description": info.description, "environments": info.environments}
    known = info.environments[: len(stored.environments)]
    if msgspec.structs.replace(stored, **free) != info or known != stored.environments:
        raise ArtifactError(
            f"{where} describes another corpus than corpus.json: its columns, outputs, domains or "
            "environments differ. Get the artifact from its source again."
        )


def check_sizes(
    metadata: pq.FileMetaData,
    schema: ShardSchema,
    size: int,
    where: str,
    extent: Callable[[], Extent],
) -> None:
    """Raise ArtifactError if row groups are inconsistent or would decode to too many bytes.

    ``extent`` returns the rows of the split, which are needed only for large row groups.
    """
    widths = [(leaf.value_bytes, leaf.nested) for leaf in schema.leaves]
    total, limit, fixed = 0, read_limit(size), fixed_columns(schema.info)
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        rows, decoded, lists = row_group.num_rows, 0, 0
        if row_group.num_columns != len(widths) or rows < 0:
            raise ArtifactError(f"{where} is damaged: row group {group} has other columns.")
        for index, (width, nested) in enumerate(widths):
            column = row_group.column(index)
            values, uncompressed = column.num_values, column.total_uncompressed_size
            if values < rows or uncompressed < 0 or not (nested or values == rows):
                raise ArtifactError(
                    f"{where} is damaged: its footer lists {rows} graphs and {values} values of "
                    f"`{schema.leaves[index].column}` in row group {group}."
                )
            decoded += values * width + uncompressed
            if schema.leaves[index].column not in fixed:
                lists += values * width + uncompressed
        if decoded > limit:
            explained = read_limit(size, extent().decoded(schema.info, rows))
            check_decoded(f"{where}: row group {group}", decoded, explained)
            check_decoded(f"{where}: lists in row group {group}", lists, limit)
        total += decoded
    if total > shard_limit(size):
        explained = extent().decoded(schema.info, metadata.num_rows)
        check_decoded(where, total, shard_limit(size, explained))


def column_chunks(
    metadata: pq.FileMetaData, schema: ShardSchema, group: int, names: Collection[str]
) -> Iterator[Chunk]:
    """Yield the chunks of the named columns of a row group."""
    row_group = metadata.row_group(group)
    for index, leaf in enumerate(schema.leaves):
        if leaf.column in names and row_group.num_rows:
            column = row_group.column(index)
            start, dictionary = column.data_page_offset, column.dictionary_page_offset
            if dictionary is not None and 0 < dictionary < start:
                start = dictionary
            yield Chunk(
                leaf.column,
                start,
                column.total_compressed_size,
                column.num_values,
                column.total_uncompressed_size,
                is_bounded=not leaf.nested and _is_small(column),
            )


def _is_small(column: pq.ColumnChunkMetaData) -> bool:
    return bool(0 < column.total_compressed_size <= _SMALL_CHUNK and column.compression == "ZSTD")


def leaves(schema: pa.Schema) -> Iterator[Leaf]:
    """Yield the Parquet columns of a schema."""
    for field in schema:
        yield from _leaves(field.name, field.type, nested=False)


def _leaves(path: str, data_type: pa.DataType, *, nested: bool) -> Iterator[Leaf]:
    if pa.types.is_struct(data_type):
        for field in data_type:
            yield from _leaves(f"{path}.{field.name}", field.type, nested=nested)
    elif pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        yield from _leaves(f"{path}.list.element", data_type.value_type, nested=True)
    else:
        yield Leaf(path, data_type, nested)


def _with_dictionaries(data_type: pa.DataType) -> pa.DataType:
    """Return a graph column type with text as Arrow reads it: words and 32-bit indices."""
    if pa.types.is_string(data_type):
        return pa.dictionary(pa.int32(), pa.string())
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_with_dictionaries(field.type)) for field in data_type])
    return data_type
