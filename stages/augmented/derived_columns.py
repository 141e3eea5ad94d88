"""Columns of spliced graphs that no component brings along."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints, Ragged
from gsx.schema import Column, CorpusInfo
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.table import GraphTable, Values

COPY = "copy"
"""Node column of grown pieces: 0 in P1, the number of the copy in P2; dropped before writing."""
JOINT = "joint"
"""Edge column of grown pieces: 1 for edges between P1 and copies; dropped before writing."""


def bridge_columns(
    table: GraphTable, attribute: Ints, model: BridgeModel, *, fixed: bool
) -> dict[str, Array]:
    """Return the edge columns of new bridges, ``[B, …]``, but for their ends.

    ``attribute`` are rows of the attributes the model knows; ``fixed`` takes the most frequent.
    """
    columns: dict[str, Array] = {}
    for name in set(table.edge) - {"edge_src", "edge_dst"}:
        old = table.dense("edge", name)
        if name == "edge_attr":
            known = np.asarray(model.shape.attributes)
            chosen = np.zeros_like(attribute) if fixed else attribute
            columns[name] = known[chosen].astype(old.dtype)
        elif name == JOINT:
            columns[name] = np.ones(len(attribute), dtype=old.dtype)
        else:
            columns[name] = missing(old.dtype, (len(attribute), *old.shape[1:]))
    return columns


def fill(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Give new graphs the dataset's own graph columns, marked as missing."""
    graphs = len(table)
    have = {*table.graph, "graph_id", "env_id"}
    more: dict[str, Values] = {
        column.name: _missing_column(column, graphs)
        for column in info.columns
        if column.axis == "graph" and column.name not in have
    }
    return table.with_columns(graph=more)


def missing(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    """Return values that say "not known": NaN, -1, or 0 where a type has no such value."""
    value = np.nan if dtype.kind == "f" else -1 if dtype.kind == "i" else 0
    return np.full(shape, value, dtype=dtype)


def same_text(text: str, rows: int) -> Ragged:
    """Return one text for every row."""
    data = text.encode()
    ptr = np.arange(rows + 1, dtype=np.int64) * len(data)
    return Ragged(ptr, np.frombuffer(data * rows, dtype=np.uint8))


def spread(values: Array, old: Ints, rows: int) -> Array:
    """Put values of old nodes at their new places; new nodes get -1."""
    found = np.full(rows, -1, dtype=values.dtype)
    found[old] = values
    return found


def _missing_column(column: Column, rows: int) -> Values:
    dtype = np.dtype("uint8" if column.dtype == "text" else column.dtype)
    shape = () if column.width is None else (column.width,)
    if column.ragged:
        return Ragged(np.zeros(rows + 1, dtype=np.int64), np.zeros((0, *shape), dtype=dtype))
    return missing(dtype, (rows, *shape))
