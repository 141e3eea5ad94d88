"""Validation of graph tables against the schema of a corpus, on writing and on verification."""

from __future__ import annotations

import numpy as np

from gsx.errors import TableError
from gsx.ragged import Array, Ragged, row_indices
from gsx.schema import SPLITS, TEXT, Axis, Column, CorpusInfo, Feature
from gsx.table import GraphTable


def validate_table(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Return ``table`` if it conforms to ``info``, else raise TableError with the first problem.

    Allowed: self-loops, repeated edges, graphs without nodes or edges, missing labels (NaN).
    """
    table.validate()
    for column in info.columns:
        _check_column(table, column)
    _check_unknown_columns(table, info)
    _check_ids(table)
    check_codes(table, info)
    _check_finite(table, info)
    _check_labels(table, info)
    _check_level(table, info)
    return table


def check_codes(table: GraphTable, info: CorpusInfo) -> None:
    """Raise TableError if a value has a type, a code or an index that its reader cannot use.

    Checks the columns that are present: text, category codes, classes, environments and the
    features of sparse rows. Code that reads a corpus may then use these values as indices.
    """
    for column in info.columns:
        values = table.columns(column.axis).get(column.name)
        if isinstance(values, Ragged) and column.dtype == TEXT:
            _check_text(values, column)
        elif isinstance(values, np.ndarray):
            _check_categories(values, column)
    axis, prefix = _labelled(info)
    columns = table.columns(axis)
    for name, check in ((f"{prefix}label", _check_classes), (f"{prefix}env_id", _check_env_ids)):
        values = columns.get(name)
        if isinstance(values, np.ndarray):
            check(table, info, values)
    if info.sparse and {"node_feat_index", "node_feat_value"} <= table.node.keys():
        _check_sparse(table, info)


def _labelled(info: CorpusInfo) -> tuple[Axis, str]:
    """Return the axis of labels and environments, and the prefix of its columns."""
    return ("graph", "") if info.level == "graph" else ("node", "node_")


def _check_column(table: GraphTable, column: Column) -> None:
    values = table.columns(column.axis).get(column.name)
    if values is None:
        raise TableError(f"column `{column.name}` is missing from the {column.axis} columns")
    if isinstance(values, Ragged) != column.ragged:
        layout = "ragged" if column.ragged else "dense"
        raise TableError(f"column `{column.name}` must be {layout}")
    array = values.values if isinstance(values, Ragged) else values
    dtype = "uint8" if column.dtype == "text" else column.dtype
    if array.dtype != np.dtype(dtype):
        raise TableError(f"column `{column.name}` has type {array.dtype}; expected {dtype}")
    shape = () if column.width is None else (column.width,)
    if array.shape[1:] != shape:
        raise TableError(
            f"column `{column.name}` has rows of shape {array.shape[1:]}; expected {shape}"
        )


def _check_categories(array: Array, column: Column) -> None:
    if (
        column.vocabulary
        and len(array)
        and not 0 <= array.min() <= array.max() < len(column.vocabulary)
    ):
        raise TableError(f"column `{column.name}` has codes outside its vocabulary")
    if column.features:
        _check_feature_codes(array, column, column.features)


def _check_feature_codes(array: Array, column: Column, features: tuple[Feature, ...]) -> None:
    for index, feature in enumerate(features):
        values = array[:, index]
        if len(values) and not 0 <= values.min() <= values.max() < len(feature.words):
            raise TableError(
                f"column `{column.name}` has codes of `{feature.name}` without a category name"
            )


def _check_unknown_columns(table: GraphTable, info: CorpusInfo) -> None:
    listed = {column.name for column in info.columns}
    unknown = sorted({*table.graph, *table.node, *table.edge} - listed)
    if unknown:
        raise TableError(
            f"column `{unknown[0]}` is not in the schema of the corpus and would be lost"
        )


def _check_ids(table: GraphTable) -> None:
    ids = np.sort(table.dense("graph", "graph_id"))
    duplicates = np.flatnonzero(ids[1:] == ids[:-1])
    if len(duplicates):
        raise TableError(f"graph_id {int(ids[duplicates[0]])} belongs to more than one graph")


def _check_text(values: Ragged, column: Column) -> None:
    """Raise TableError if the bytes are not UTF-8 or a row starts inside a character."""
    starts = values.ptr[:-1][np.diff(values.ptr) > 0]
    invalid = bool(((values.values[starts] & 0xC0) == 0x80).any())
    try:
        values.values.tobytes().decode()
    except UnicodeDecodeError:
        invalid = True
    if invalid:
        raise TableError(f"column `{column.name}` holds bytes that are not UTF-8 text")


def _check_finite(table: GraphTable, info: CorpusInfo) -> None:
    for axis, name in (("node", "node_feat"), ("node", "node_feat_value"), ("edge", "edge_attr")):
        values = table.columns(axis).get(name)  # type: ignore[arg-type]
        if values is None:
            continue
        array = values.values if isinstance(values, Ragged) else values
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        first = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        row = int(row_indices(values.ptr)[first]) if isinstance(values, Ragged) else first
        ptr = table.node_ptr if axis == "node" else table.edge_ptr
        graph = int(np.searchsorted(ptr, row, side="right")) - 1
        raise TableError(
            f"{table.describe(graph)}: {axis} {row - int(ptr[graph])} has NaN or infinity in "
            f"`{name}`. Clean the source data; gsx does not impute features."
        )


def _check_sparse(table: GraphTable, info: CorpusInfo) -> None:
    index = table.lists("node", "node_feat_index")
    value = table.lists("node", "node_feat_value")
    if not np.array_equal(index.ptr, value.ptr):
        raise TableError("`node_feat_index` and `node_feat_value` must have rows of equal length")
    features = index.values
    if len(features) and not 0 <= features.min() <= features.max() < info.num_features:
        raise TableError(
            f"`node_feat_index` is outside the {info.num_features} features of the corpus"
        )
    row = row_indices(index.ptr)
    increasing = (np.diff(features) > 0) | (np.diff(row) > 0)
    if not increasing.all():
        node = int(row[int(np.argmin(increasing))])
        raise TableError(
            f"`node_feat_index` of node {node} of the table is not strictly increasing"
        )


def _check_classes(table: GraphTable, info: CorpusInfo, label: Array) -> None:
    classes = len(info.outputs) if info.task == "classification" else 2
    invalid = np.flatnonzero((label < -1) | (label >= classes))
    if len(invalid):
        raise TableError(
            f"{_describe(table, info, int(invalid[0]))}: label {int(label[invalid[0]])} is outside "
            f"the {classes} classes 0..{classes - 1} ({len(invalid)} such labels in total)"
        )


def _check_labels(table: GraphTable, info: CorpusInfo) -> None:
    axis, prefix = _labelled(info)
    y, label = table.dense(axis, f"{prefix}y"), table.dense(axis, f"{prefix}label")
    if np.isinf(y).any():
        row = int(np.argmax(np.isinf(y).any(1)))
        raise TableError(f"{_describe(table, info, row)}: `y` is infinite")
    if info.task != "regression" and ((y < 0) | (y > 1)).any():
        row = int(np.argmax(((y < 0) | (y > 1)).any(axis=1)))
        raise TableError(f"{_describe(table, info, row)}: `y` is outside [0, 1]: {y[row].tolist()}")
    if info.task == "classification":
        total = y.sum(axis=1)
        unnormalized = np.flatnonzero(~(np.isnan(y).all(axis=1) | (np.abs(total - 1) < 1e-4)))
        if len(unnormalized):
            row = int(unnormalized[0])
            raise TableError(
                f"{_describe(table, info, row)}: `y` must be a distribution that sums to 1, "
                f"or all NaN; found {y[row].tolist()}"
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
            f"{_describe(table, info, row)}: label {int(label[row])} "
            f"does not match `y` {y[row].tolist()}"
        )


def _check_env_ids(table: GraphTable, info: CorpusInfo, env: Array) -> None:
    count = len(info.environments)
    invalid = np.flatnonzero((env < -1) | (env >= count))
    if len(invalid):
        raise TableError(
            f"{_describe(table, info, int(invalid[0]))}: environment {int(env[invalid[0]])} is not "
            f"one of the {count} environments of the corpus"
        )


def _check_level(table: GraphTable, info: CorpusInfo) -> None:
    if info.level == "graph":
        return
    misplaced = np.flatnonzero(table.dense("graph", "split") != SPLITS.index("all"))
    if len(misplaced):
        raise TableError(
            f"{table.describe(int(misplaced[0]))}: graphs of a node-labelled corpus must have the "
            "split `all`; the splits of nodes are in `node_split`"
        )


def _describe(table: GraphTable, info: CorpusInfo, row: int) -> str:
    """Return the name of a graph or node for error messages."""
    if info.level == "graph":
        return table.describe(row)
    graph = int(np.searchsorted(table.node_ptr, row, side="right")) - 1
    return f"{table.describe(graph)}, node {row - int(table.node_ptr[graph])}"
