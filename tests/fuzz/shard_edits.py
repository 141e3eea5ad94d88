"""Edits of shards that keep the file readable: columns, values, list lengths, footers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.values import dumps, expand

TYPES: dict[str, Any] = {
    "int8": pa.int8(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "null": pa.null(),
    "timestamp": pa.timestamp("ns"),
    "decimal": pa.decimal128(38, 2),
    "list": pa.list_(pa.int64()),
    "nested": pa.list_(pa.list_(pa.int32())),
    "struct": pa.struct([("a", pa.int32())]),
}
CHANGES = (
    "zero",
    "minus one",
    "huge",
    "largest",
    "nan",
    "null",
    "shorter",
    "longer",
    "empty",
    "reverse",
    "text",
    "swap",
)


def apply(path: Path, edit: dict, canary: Path) -> None:
    """Apply one edit to a Parquet shard or a Zarr array."""
    if edit["do"] == "zarr":
        _edit_zarr(path, edit)
        return
    try:
        table = _edit_table(pq.read_table(path, partitioning=None), edit, canary)
        options = edit.get("options", {})
        path.unlink()
        pq.write_table(table, path, **{"compression": "zstd", **options})
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _edit_table(table: pa.Table, edit: dict, canary: Path) -> pa.Table:
    name = edit.get("column")
    where = table.column_names.index(name) if name in table.column_names else None
    match edit["edit"]:
        case "drop":
            return table.drop_columns([name])
        case "rename":
            names = list(table.column_names)
            names[where] = str(expand(edit["name"], str(canary)))
            return table.rename_columns(names)
        case "type":
            return table.set_column(where, name, _cast(table[name], TYPES[edit["type"]]))
        case "add":
            filler = pa.array([0] * table.num_rows, pa.int32())
            return table.append_column(str(expand(edit["name"], str(canary))), filler)
        case "order":
            return table.select(list(reversed(table.column_names)))
        case "rows":
            return _edit_rows(table, edit)
        case "value":
            field = table.schema.field(where)
            rows = table[name].to_pylist()
            chosen = range(len(rows)) if edit["row"] == "all" else [edit["row"] % len(rows)]
            for row in chosen:
                rows[row] = change(rows[row], edit)
            return table.set_column(where, field, _array(rows, field.type))
        case "bomb":
            return _bomb(table, edit)
        case "footer":
            return _edit_footer(table, edit, canary)
        case "options":
            return table
    raise ValueError(edit["edit"])


def _edit_rows(table: pa.Table, edit: dict) -> pa.Table:
    match edit["how"]:
        case "none":
            return table.slice(0, 0)
        case "fewer":
            return table.slice(0, max(table.num_rows - 1, 0))
        case "twice":
            return pa.concat_tables([table, table])
    return table.take(list(reversed(range(table.num_rows))))


def _edit_footer(table: pa.Table, edit: dict, canary: Path) -> pa.Table:
    metadata = dict(table.schema.metadata or {})
    if "json" in edit:
        from tests.fuzz.edits import edit_json

        info = edit_json(json.loads(metadata[b"gsx"]), edit["json"])
        text = dumps(info, str(canary), indent=None)
        metadata[b"gsx"] = text.encode("utf-8", "surrogatepass")
    else:
        metadata.pop(b"gsx", None)
    return table.replace_schema_metadata(metadata)


def _bomb(table: pa.Table, edit: dict) -> pa.Table:
    """Replace every list by one of ``count`` equal values, which encodes to a few bytes."""
    count, rows = edit["count"], table.num_rows
    for index, field in enumerate(table.schema):
        if field.name in edit.get("sizes", ()):
            sizes = pa.array([count] * rows, field.type)
            table = table.set_column(index, field, sizes)
        if field.name == edit["column"] and pa.types.is_list(field.type):
            values = pa.array(np.zeros(count), pa.float64())
            inner = field.type.value_type
            if pa.types.is_fixed_size_list(inner):
                flat = pa.repeat(pa.scalar(0), count * inner.list_size).cast(inner.value_type)
                values = pa.FixedSizeListArray.from_arrays(flat, inner.list_size).cast(inner)
            else:
                values = values.cast(inner)
            one = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
            chunks = pa.chunked_array([one.cast(field.type)] * rows)
            table = table.set_column(index, field, chunks)
    return table


def change(value: Any, edit: dict) -> Any:
    """Return a cell after a change; ``inner`` descends into structs, ``item`` into lists."""
    if isinstance(value, dict) and edit.get("inner"):
        return {**value, edit["inner"]: change(value[edit["inner"]], {**edit, "inner": None})}
    how = edit["how"]
    if isinstance(value, list):
        match how:
            case "shorter":
                return value[:-1]
            case "longer":
                return [*value, *(value[-1:] or [0])]
            case "empty":
                return []
            case "reverse":
                return value[::-1]
        if value:
            item = edit.get("item", 0) % len(value)
            return [*value[:item], change(value[item], edit), *value[item + 1 :]]
        return [change(0, edit)]
    return {
        "zero": 0,
        "minus one": -1,
        "huge": 2**30,
        "largest": 2**31 - 1,
        "nan": float("nan"),
        "null": None,
        "text": "\x1b[31m=CANARY()",
        "swap": 1,
    }.get(how, value)


def _array(rows: list, kind: pa.DataType) -> pa.Array:
    for attempt in (kind, None):
        try:
            return pa.array(rows, attempt)
        except (pa.ArrowException, OverflowError, TypeError):
            continue
    return pa.array([str(row) for row in rows])


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


def _edit_zarr(path: Path, edit: dict) -> None:
    import zarr

    array = zarr.open_array(path, mode="r+")
    values = np.array(array[...])
    flat = values.reshape(-1)
    limit = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
    new = {
        "zero": 0,
        "minus one": -1 if values.dtype.kind != "u" else 255,
        "huge": limit.max // 2,
        "largest": limit.max,
        "nan": np.nan if values.dtype.kind == "f" else limit.min,
    }.get(edit["how"], 1)
    if edit["row"] == "all":
        flat[:] = new
    else:
        flat[edit["row"] % len(flat)] = new
    array[...] = values
