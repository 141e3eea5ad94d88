"""What the values of a corpus may be: checked before anything is written, and on verification."""

from __future__ import annotations

import numpy as np

from gsx.errors import TableError
from gsx.ragged import Array, Ragged, rows_of
from gsx.schema import SPLITS, Column, CorpusInfo, Feature
from gsx.table import GraphTable


def check_content(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Return ``table`` if it may be stored as ``info`` says, else name what breaks a rule.

    Accepted by the specification: self-loops, repeated edges, graphs without nodes or edges,
    missing labels (NaN).
    """
    table.validate()
    for column in info.columns:
        _check_column(table, column)
    _check_strangers(table, info)
    _check_ids(table)
    _check_finite(table, info)
    _check_labels(table, info)
    _check_environments(table, info)
    _check_level(table, info)
    return table


def _check_column(table: GraphTable, column: Column) -> None:
    values = table.columns(column.axis).get(column.name)
    if values is None:
        raise TableError(f"column `{column.name}` is missing from the {column.axis} columns")
    if isinstance(values, Ragged) != column.ragged:
        raise TableError(f"column `{column.name}` must hold {'lists' if column.ragged else 'rows'}")
    array = values.values if isinstance(values, Ragged) else values
    dtype = "uint8" if column.dtype == "text" else column.dtype
    if array.dtype != np.dtype(dtype):
        raise TableError(f"column `{column.name}` has type {array.dtype}; expected {dtype}")
    shape = () if column.width is None else (column.width,)
    if shape == (0,):
        raise TableError(
            f"column `{column.name}` is 0 wide. Where nodes have no features, give each a 1."
        )
    if array.shape[1:] != shape:
        raise TableError(
            f"column `{column.name}` has rows of shape {array.shape[1:]}; expected {shape}"
        )
    if isinstance(values, Ragged) and column.dtype == "text":
        _check_text(values, column)
    if (
        column.vocabulary
        and len(array)
        and not 0 <= array.min() <= array.max() < len(column.vocabulary)
    ):
        raise TableError(f"column `{column.name}` has codes outside its vocabulary")
    if column.features:
        _check_words(array, column, column.features)


def _check_words(array: Array, column: Column, features: tuple[Feature, ...]) -> None:
    if len(features) != column.width:
        raise TableError(
            f"column `{column.name}` is {column.width} wide and has words for {len(features)}"
        )
    for place, feature in enumerate(features):
        values = array[:, place]
        if len(values) and not 0 <= values.min() <= values.max() < len(feature.words):
            raise TableError(
                f"column `{column.name}` has values of `{feature.name}` that have no word"
            )


def _check_strangers(table: GraphTable, info: CorpusInfo) -> None:
    listed = {column.name for column in info.columns}
    strangers = sorted({*table.graph, *table.node, *table.edge} - listed)
    if strangers:
        raise TableError(
            f"column `{strangers[0]}` is not in the description of the corpus, so it would be lost"
        )


def _check_ids(table: GraphTable) -> None:
    ids = np.sort(table.dense("graph", "graph_id"))
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        raise TableError(f"graph_id {int(ids[again[0]])} stands for more than one graph")


def _check_text(values: Ragged, column: Column) -> None:
    """Refuse bytes that are not text: as a whole, or cut inside a character."""
    starts = values.ptr[:-1][np.diff(values.ptr) > 0]
    cut = bool(((values.values[starts] & 0xC0) == 0x80).any())
    try:
        values.values.tobytes().decode()
    except UnicodeDecodeError:
        cut = True
    if cut:
        raise TableError(f"column `{column.name}` holds bytes that are not UTF-8 text")


def _check_finite(table: GraphTable, info: CorpusInfo) -> None:
    for axis, name in (("node", "node_feat"), ("node", "node_feat_value"), ("edge", "edge_attr")):
        values = table.columns(axis).get(name)  # type: ignore[arg-type]
        if values is None:
            continue
        array = values.values if isinstance(values, Ragged) else values
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        bad = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        row = int(rows_of(values.ptr)[bad]) if isinstance(values, Ragged) else bad
        ptr = table.node_ptr if axis == "node" else table.edge_ptr
        graph = int(np.searchsorted(ptr, row, side="right")) - 1
        raise TableError(
            f"{table.describe(graph)}: {axis} {row - int(ptr[graph])} has a value in `{name}` that "
            f"is not finite. Clean the source data; gsx does not guess features."
        )
    if info.sparse:
        _check_sparse(table, info)


def _check_sparse(table: GraphTable, info: CorpusInfo) -> None:
    index = table.lists("node", "node_feat_index")
    value = table.lists("node", "node_feat_value")
    if not np.array_equal(index.ptr, value.ptr):
        raise TableError("`node_feat_index` and `node_feat_value` must have lists of equal length")
    numbers = index.values
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < info.num_features:
        raise TableError(f"`node_feat_index` leaves the {info.num_features} features of the corpus")
    row = rows_of(index.ptr)
    rising = (np.diff(numbers) > 0) | (np.diff(row) > 0)
    if not rising.all():
        node = int(row[int(np.argmin(rising))])
        raise TableError(f"`node_feat_index` of node {node} (of the table) is not strictly rising")


def _check_labels(table: GraphTable, info: CorpusInfo) -> None:
    axis, prefix = ("graph", "") if info.level == "graph" else ("node", "node_")
    y: Array = table.dense(axis, f"{prefix}y")  # type: ignore[arg-type]
    label: Array = table.dense(axis, f"{prefix}label")  # type: ignore[arg-type]
    classes = len(info.outputs) if info.task == "classification" else 2
    bad = np.flatnonzero((label < -1) | (label >= classes))
    if len(bad):
        raise TableError(
            f"{_row(table, info, int(bad[0]))}: label {int(label[bad[0]])} is outside the "
            f"{classes} classes 0..{classes - 1} ({len(bad)} such labels in all)"
        )
    if np.isinf(y).any():
        raise TableError(
            f"{_row(table, info, int(np.argmax(np.isinf(y).any(1))))}: `y` is infinite"
        )
    if info.task != "regression" and ((y < 0) | (y > 1)).any():
        row = int(np.argmax(((y < 0) | (y > 1)).any(axis=1)))
        raise TableError(f"{_row(table, info, row)}: `y` leaves [0, 1]: {y[row].tolist()}")
    if info.task == "classification":
        total = y.sum(axis=1)
        off = np.flatnonzero(~(np.isnan(y).all(axis=1) | (np.abs(total - 1) < 1e-4)))
        if len(off):
            raise TableError(
                f"{_row(table, info, int(off[0]))}: `y` must be a distribution that sums to 1, "
                f"or all NaN; found {y[off[0]].tolist()}"
            )
    _check_hard_labels(table, info, y, label)


def _check_hard_labels(table: GraphTable, info: CorpusInfo, y: Array, label: Array) -> None:
    hard = np.flatnonzero(label >= 0)
    if info.task == "classification":
        agree = y[hard, label[hard]] == 1
    elif len(info.outputs) == 1:
        agree = y[hard, 0] == label[hard]
    else:
        return
    if not agree.all():
        row = int(hard[int(np.argmin(agree))])
        raise TableError(
            f"{_row(table, info, row)}: label {int(label[row])} "
            f"disagrees with `y` {y[row].tolist()}"
        )


def _check_environments(table: GraphTable, info: CorpusInfo) -> None:
    known = len(info.environments)
    ids = [environment.id for environment in info.environments]
    if ids != list(range(known)):
        raise TableError(f"environment ids must count from 0; found {ids}")
    axis, name = ("graph", "env_id") if info.level == "graph" else ("node", "node_env_id")
    env: Array = table.dense(axis, name)  # type: ignore[arg-type]
    bad = np.flatnonzero((env < -1) | (env >= known))
    if len(bad):
        raise TableError(
            f"{_row(table, info, int(bad[0]))}: environment {int(env[bad[0]])} is not among the "
            f"{known} of the corpus"
        )


def _check_level(table: GraphTable, info: CorpusInfo) -> None:
    if info.level == "graph":
        return
    strangers = np.flatnonzero(table.dense("graph", "split") != SPLITS.index("all"))
    if len(strangers):
        raise TableError(
            f"{table.describe(int(strangers[0]))}: where nodes have labels, splits are those of "
            "nodes (`node_split`), and every graph belongs to the split `all`"
        )


def _row(table: GraphTable, info: CorpusInfo, row: int) -> str:
    if info.level == "graph":
        return table.describe(row)
    graph = int(np.searchsorted(table.node_ptr, row, side="right")) - 1
    return f"{table.describe(graph)}, node {row - int(table.node_ptr[graph])}"
