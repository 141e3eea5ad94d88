"""Graph columns of generated graphs: split, origin, provenance, and missing values."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ragged, pointers
from gsx.schema import ORIGINS, SPLITS, Column, CorpusInfo
from gsx.table import GraphTable, Values


def derived_columns(
    count: int,
    *,
    origin: str,
    stream: str,
    parents: Ragged,
    split: str = "train",
    node_number: Ragged | None = None,
    node_slot: Ragged | None = None,
    bridges: Ragged | None = None,
    strength: Array | None = None,
    partner: Array | None = None,
) -> dict[str, Values]:
    """Return the graph columns that describe how ``count`` graphs were generated.

    Args:
        count: Number of graphs, G.
        origin: One of ``gsx.schema.ORIGINS``.
        stream: Name of the random stream that drew the graphs.
        parents: ``graph_id`` of the source graphs of each graph.
        split: Split of all graphs.
        node_number: Per node, its number in its parent; empty by default.
        node_slot: Per node, the index of its parent; 0 by default.
        bridges: Positions of bridges among the edges of each graph; empty by default.
        strength: ``[G]`` λ of each graph; NaN by default.
        partner: ``[G]`` ``graph_id`` of each graph's partner; -1 by default.
    """
    if node_number is None:
        node_number = _empty_rows(count)
    if node_slot is None:
        slots = np.zeros(len(node_number.values), dtype=np.int16)
        node_slot = Ragged(node_number.ptr, slots)
    if strength is None:
        strength = np.full(count, np.nan, dtype=np.float32)
    if partner is None:
        partner = np.full(count, -1, dtype=np.int64)
    return {
        "split": np.full(count, SPLITS.index(split), dtype=np.int8),
        "domain_id": np.full(count, -1, dtype=np.int32),
        "origin": np.full(count, ORIGINS.index(origin), dtype=np.int8),
        "provenance.parents": parents,
        "provenance.node_slot": node_slot,
        "provenance.node_number": node_number,
        "provenance.bridges": _empty_rows(count) if bridges is None else bridges,
        "provenance.lambda": strength,
        "provenance.partner": partner,
        "provenance.stream": repeat_text(stream, count),
    }


def one_parent_each(graph_id: Array) -> Ragged:
    """Return ``provenance.parents`` of graphs that have a single parent."""
    return Ragged(np.arange(len(graph_id) + 1), graph_id.astype(np.int64, copy=False))


def fill_missing_columns(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Add the graph columns of the dataset that generated graphs lack, as missing values."""
    present = {*table.graph, "graph_id", "env_id"}
    absent: dict[str, Values] = {
        column.name: _missing_column(column, len(table))
        for column in info.columns
        if column.axis == "graph" and column.name not in present
    }
    return table.with_columns(graph=absent)


def missing_values(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    """Return an array of missing values: NaN for floats, -1 for signed integers, 0 otherwise."""
    value = np.nan if dtype.kind == "f" else -1 if dtype.kind == "i" else 0
    return np.full(shape, value, dtype=dtype)


def repeat_text(text: str, rows: int) -> Ragged:
    """Return a text column with the same text in every row."""
    data = text.encode()
    ptr = np.arange(rows + 1, dtype=np.int64) * len(data)
    return Ragged(ptr, np.frombuffer(data * rows, dtype=np.uint8))


def _empty_rows(count: int) -> Ragged:
    return Ragged(pointers(np.zeros(count)), np.zeros(0, dtype=np.int32))


def _missing_column(column: Column, rows: int) -> Values:
    dtype = np.dtype("uint8" if column.dtype == "text" else column.dtype)
    shape = () if column.width is None else (column.width,)
    if column.ragged:
        return Ragged(np.zeros(rows + 1, dtype=np.int64), np.zeros((0, *shape), dtype=dtype))
    return missing_values(dtype, (rows, *shape))
