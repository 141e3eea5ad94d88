"""Graph tables as Arrow tables: one row per graph, standard types, zero-copy where possible.

A node or edge column is a list per graph, a vector is a fixed-size list, and a column with a
vocabulary is a dictionary of strings. The schema metadata carries the corpus description.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gsx.errors import ArtifactError, TableError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import Axis, Column, CorpusInfo
from gsx.storage.artifacts.digest import canonical_json
from gsx.storage.corpora.limits import MAX_READ_BYTES, check_decoded
from gsx.table import GraphTable, Values

FOOTER = b"gsx"
SIZES = ("num_nodes", "num_edges")
"""Columns with the size of each graph."""


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
            fields += [pa.field(name, pa.int32(), nullable=False) for name in SIZES]
    complete = [
        pa.field(field.name, pa.struct(structs[field.name]), nullable=False)
        if field.name in structs
        else field
        for field in fields
    ]
    return pa.schema(complete, metadata={FOOTER: canonical_json(info)})


def to_arrow(table: GraphTable, info: CorpusInfo, schema: pa.Schema | None = None) -> pa.Table:
    """Return ``table`` as an Arrow table that shares memory with it where the types allow."""
    schema = schema or arrow_schema(info)
    sizes = {"num_nodes": table.num_nodes, "num_edges": table.num_edges}
    columns: dict[str, pa.Array] = {
        name: pa.array(values.astype(np.int32)) for name, values in sizes.items()
    }
    for column in info.columns:
        columns[column.name] = _to_arrow_column(table, column)
    arrays = []
    for field in schema:
        if pa.types.is_struct(field.type):
            children = [columns[f"{field.name}.{inner.name}"] for inner in field.type]
            arrays.append(pa.StructArray.from_arrays(children, fields=list(field.type)))
        else:
            arrays.append(columns[field.name])
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(
    arrow: pa.Table, columns: Sequence[Column], where: str, limit: int = MAX_READ_BYTES
) -> GraphTable:
    """Return ``arrow`` as a graph table, with validated structure.

    Texts of more than ``limit`` bytes in a column raise ArtifactError.
    """
    axes: dict[Axis, dict[str, Values]] = {"graph": {}, "node": {}, "edge": {}}
    ptrs: dict[Axis, Ints] = {
        "node": pointers(_numbers(_one_chunk(arrow, "num_nodes"))),
        "edge": pointers(_numbers(_one_chunk(arrow, "num_edges"))),
    }
    for column in columns:
        array = _one_chunk(arrow, column.name)
        if column.axis != "graph":
            offsets, array = _split_list(array)
            if not np.array_equal(offsets, ptrs[column.axis]):
                raise ArtifactError(
                    f"{where}: list lengths of `{column.name}` do not match num_{column.axis}s"
                )
        axes[column.axis][column.name] = _from_arrow_values(array, column, where, limit)
    table = GraphTable(ptrs["node"], ptrs["edge"], axes["graph"], axes["node"], axes["edge"])
    try:
        return table.validate()
    except TableError as error:
        raise ArtifactError(f"{where}: {error}") from error


def graph_values(
    arrow: pa.Table, columns: Sequence[Column], where: str, limit: int = MAX_READ_BYTES
) -> dict[str, Values]:
    """Return graph columns, ``num_nodes`` and ``num_edges`` of a table without node columns."""
    sizes = {name: _numbers(_one_chunk(arrow, name)) for name in SIZES}
    if any(values.min(initial=0) < 0 for values in sizes.values()):
        raise ArtifactError(f"{where}: a graph has a negative number of nodes or edges")
    values = {
        column.name: _from_arrow_values(_one_chunk(arrow, column.name), column, where, limit)
        for column in columns
    }
    return {**sizes, **values}


def _arrow_type(column: Column) -> pa.DataType:
    if column.dtype == "text":
        value = pa.string()
    else:
        value = pa.from_numpy_dtype(np.dtype(column.dtype))
        if column.vocabulary:
            value = pa.dictionary(pa.int8(), pa.string())
        if column.width is not None:
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
    list_type = pa.list_(pa.field("item", flat.type, nullable=False), column.width)
    return pa.FixedSizeListArray.from_arrays(flat, type=list_type)


def _offsets(ptr: Ints) -> Any:  # noqa: ANN401
    if ptr[-1] > np.iinfo(np.int32).max:
        raise TableError(
            f"a shard holds {int(ptr[-1])} values in one column, more than 32-bit list offsets "
            "allow. Use smaller shards (`--shard-graphs`)."
        )
    return pa.array(ptr.astype(np.int32))


def _one_chunk(arrow: pa.Table, name: str) -> pa.Array:
    head, _, tail = name.partition(".")
    column = arrow.column(head)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.chunk(0) if chunk.num_chunks else pa.array([], column.type)
    return chunk.field(tail) if tail else chunk


def _split_list(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Return pointers that start at 0 and the values of a list array, which may be a slice."""
    offsets = _numbers(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def _from_arrow_values(array: pa.Array, column: Column, where: str, limit: int) -> Values:
    if column.dtype == "text":
        if not pa.types.is_dictionary(array.type):
            return _text(array)
        words, codes = _text(array.dictionary), _numbers(array.indices)
        length = int(np.diff(words.ptr)[codes].sum()) if len(codes) else 0
        check_decoded(f"{where}: column `{column.name}`", length, limit)
        return words.take(codes)
    if column.ragged:
        ptr, inner = _split_list(array)
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
        raise ArtifactError(
            f"{where}: column `{column.name}` holds {unknown}, which its vocabulary lacks"
        )
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
