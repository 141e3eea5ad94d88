"""Shards as Parquet: one row per graph, readable by anything, no custom types.

A column of nodes is a list per graph, a vector is a fixed-size list, words are written as words.
The footer carries the corpus description, so a lone shard explains itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsx.columns import Axis, Column, CorpusInfo
from gsx.errors import ArtifactError, TableError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.storage.digest import canonical_json
from gsx.storage.place import Place
from gsx.table import GraphTable, Values, concat, cut

FOOTER = b"gsx"
ROW_GROUP = 4096
MAX_ROW_GROUP_BYTES = 8 << 30
"""Uncompressed size of a row group above which a shard is taken for a decompression bomb."""

_SIZES = ("num_nodes", "num_edges")


def write_parquet(
    path: Path, parts: Iterable[GraphTable], info: CorpusInfo, *, row_group: int = ROW_GROUP
) -> None:
    """Write tables one after the other as one shard; however graphs are cut, bytes are the same."""
    schema = arrow_schema(info)
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[path for path, leaf in leaves if not pa.types.is_floating(leaf)],
        use_byte_stream_split=[path for path, leaf in leaves if pa.types.is_floating(leaf)],
        write_statistics=["graph_id", "split", "env_id", "domain_id", "origin", *_SIZES],
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
        paths = [*_SIZES, *(column.name for column in wanted)]
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
                arrow = self._file.read(columns=[*_SIZES, *names])
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(f"{self.where} is damaged: {error}") from error
        return {
            **{name: _numbers(_one_chunk(arrow, name)) for name in _SIZES},
            **{
                column.name: _from_arrow_values(_one_chunk(arrow, column.name), column, self.where)
                for column in wanted
            },
        }

    def iter_groups(self, names: Sequence[str] | None = None) -> Iterator[GraphTable]:
        """Yield one table per row group."""
        for group in range(self._file.metadata.num_row_groups):
            yield self.read(names, group)


def _wanted(info: CorpusInfo, names: Sequence[str]) -> tuple[Column, ...]:
    chosen = {*names, "edge_src", "edge_dst"}
    return tuple(column for column in info.columns if column.name in chosen)


def arrow_schema(info: CorpusInfo) -> pa.Schema:
    """Return the Arrow schema of a shard."""
    fields: list[pa.Field] = []
    structs: dict[str, list[pa.Field]] = {}
    for column in info.columns:
        head, _, tail = column.name.partition(".")
        field = pa.field(tail or head, _arrow_type(column), nullable=False)
        if tail:
            if head not in structs:
                structs[head] = []
                fields.append(pa.field(head, pa.struct([]), nullable=False))
            structs[head].append(field)
        else:
            fields.append(field)
        if column.name == "origin":
            fields += [pa.field(name, pa.int32(), nullable=False) for name in _SIZES]
    filled = [
        pa.field(field.name, pa.struct(structs[field.name]), nullable=False)
        if field.name in structs
        else field
        for field in fields
    ]
    return pa.schema(filled, metadata={FOOTER: canonical_json(info)})


def to_arrow(table: GraphTable, info: CorpusInfo, schema: pa.Schema | None = None) -> pa.Table:
    """Return ``table`` as Arrow, sharing memory with it where the types allow."""
    schema = schema or arrow_schema(info)
    sizes = {"num_nodes": table.num_nodes, "num_edges": table.num_edges}
    made: dict[str, pa.Array] = {
        name: pa.array(values.astype(np.int32)) for name, values in sizes.items()
    }
    for column in info.columns:
        made[column.name] = _to_arrow_column(table, column)
    arrays = []
    for field in schema:
        if pa.types.is_struct(field.type):
            parts = [made[f"{field.name}.{inner.name}"] for inner in field.type]
            arrays.append(pa.StructArray.from_arrays(parts, fields=list(field.type)))
        else:
            arrays.append(made[field.name])
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(arrow: pa.Table, columns: Sequence[Column], where: str) -> GraphTable:
    """Return the graph table held by ``arrow``; its structure is checked."""
    axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
    ptrs: dict[Axis, Ints] = {
        "node": pointers(_numbers(_one_chunk(arrow, "num_nodes"))),
        "edge": pointers(_numbers(_one_chunk(arrow, "num_edges"))),
    }
    for column in columns:
        array = _one_chunk(arrow, column.name)
        if column.axis != "graph":
            offsets, array = _open_list(array)
            if not np.array_equal(offsets, ptrs[column.axis]):
                raise ArtifactError(
                    f"{where}: lists of `{column.name}` disagree with num_{column.axis}s"
                )
        axes[column.axis][column.name] = _from_arrow_values(array, column, where)
    table = GraphTable(ptrs["node"], ptrs["edge"], axes["graph"], axes["node"], axes["edge"])
    try:
        return table.validate()
    except TableError as error:
        raise ArtifactError(f"{where}: {error}") from error


def _arrow_type(column: Column) -> pa.DataType:
    if column.dtype == "text":
        value = pa.string()
    else:
        value = pa.from_numpy_dtype(np.dtype(column.dtype))
        if column.vocabulary:
            value = pa.dictionary(pa.int8(), pa.string())
        if column.width is not None:
            if column.width < 1:  # Arrow would end the process with a division by zero
                raise TableError(f"column `{column.name}` is {column.width} wide")
            value = pa.list_(pa.field("item", value, nullable=False), column.width)
        if column.ragged:
            value = pa.list_(pa.field("item", value, nullable=False))
    if column.axis != "graph":
        value = pa.list_(pa.field("item", value, nullable=False))
    return value


def _to_arrow_column(table: GraphTable, column: Column) -> pa.Array:
    values = table.columns(column.axis)[column.name]
    array = _to_arrow_values(values, column)
    if column.axis == "graph":
        return array
    ptr = table.node_ptr if column.axis == "node" else table.edge_ptr
    return pa.ListArray.from_arrays(_offsets(ptr), array, type=_arrow_type(column))


def _to_arrow_values(values: Values, column: Column) -> pa.Array:
    if not isinstance(values, Ragged):
        return _to_arrow_rows(values, column)
    if column.dtype == "text":
        data = pa.py_buffer(np.ascontiguousarray(values.values))
        buffers = [None, _offsets(values.ptr).buffers()[1], data]
        return pa.Array.from_buffers(pa.string(), len(values), buffers)
    inner = _to_arrow_rows(values.values, column)
    return pa.ListArray.from_arrays(
        _offsets(values.ptr), inner, type=pa.list_(pa.field("item", inner.type, nullable=False))
    )


def _to_arrow_rows(values: Array, column: Column) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if column.vocabulary:
        flat = pa.DictionaryArray.from_arrays(flat, pa.array(column.vocabulary))
    if column.width is None:
        return flat
    kind = pa.list_(pa.field("item", flat.type, nullable=False), column.width)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind)


def _offsets(ptr: Ints) -> Any:  # noqa: ANN401
    if ptr[-1] > np.iinfo(np.int32).max:
        raise TableError(
            f"a shard holds {int(ptr[-1])} values in one column, more than Parquet lists can count."
            " Use smaller shards (`--shard-graphs`)."
        )
    return pa.array(ptr.astype(np.int32))


def _one_chunk(arrow: pa.Table, name: str) -> pa.Array:
    head, _, tail = name.partition(".")
    column = arrow.column(head)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.chunk(0) if chunk.num_chunks else pa.array([], column.type)
    return chunk.field(tail) if tail else chunk


def _open_list(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Return pointers from 0 and the values of a list array, whatever slice of it this is."""
    offsets = _numbers(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def _from_arrow_values(array: pa.Array, column: Column, where: str) -> Values:
    if column.dtype == "text":
        return _text(array)
    if column.ragged:
        ptr, inner = _open_list(array)
        return Ragged(ptr, _from_arrow_rows(inner, column, where))
    return _from_arrow_rows(array, column, where)


def _from_arrow_rows(array: pa.Array, column: Column, where: str) -> Array:
    if array.null_count:
        raise ArtifactError(f"{where}: column `{column.name}` holds nulls")
    if column.width is not None:
        flat = array.values.slice(array.offset * column.width, len(array) * column.width)
        return _numbers(flat).reshape(-1, column.width)
    if column.vocabulary:
        return _codes(array, column, where)
    return _numbers(array)


def _codes(array: pa.Array, column: Column, where: str) -> Array:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    words = array.dictionary.to_pylist()
    unknown = sorted(set(words) - set(column.vocabulary))
    if unknown:
        raise ArtifactError(f"{where}: column `{column.name}` holds the unknown words {unknown}")
    codes = np.array([column.vocabulary.index(word) for word in words], dtype=column.dtype)
    return codes[_numbers(array.indices)] if len(array) else codes[:0]


def _text(array: pa.Array) -> Ragged:
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[
        array.offset : array.offset + len(array) + 1
    ].astype(np.int64)
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    return Ragged(offsets - offsets[0], raw[offsets[0] : offsets[-1]])


def _numbers(array: pa.Array) -> Array:
    values: Array = array.to_numpy(zero_copy_only=True)
    return values


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and type of every column Parquet stores for one Arrow field."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind
