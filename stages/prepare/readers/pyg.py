"""Build graphs from the fields of PyG files (``pyg``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, did_you_mean
from gsx.names import shown
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.parsed import (
    ParsedGraphs,
    check_local_endpoints,
    flatten_rows,
    graph_table,
    infer_features,
    one_way_warning,
)
from gsx.stages.prepare.readers.pt_files import GraphFields, read_pt_graphs
from gsx.stages.prepare.split_methods import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, UNUSED
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import check_num_targets, infer_task

SPLIT_MASKS = {
    "train_mask": TRAIN,
    "id_val_mask": ID_VAL,
    "id_test_mask": ID_TEST,
    "val_mask": OOD_VAL,
    "test_mask": OOD_TEST,
}
"""Boolean node field → split of its nodes."""
EDGE_ATTR_IGNORED = "edge features (`edge_attr`) are ignored: node-level corpora have none"
_STRUCTURE = ("x", "edge_index", "edge_attr", "num_nodes")


def read_pyg(path: Path, options: Mapping[str, Any]) -> ParsedGraphs:
    """Read a file written by ``torch.save`` or by PyG's ``InMemoryDataset``."""
    return parse_graphs(read_pt_graphs(path, path.name), options["targets"] or ("y",), path.name)


def parse_graphs(fields: GraphFields, targets: Sequence[str], where: str) -> ParsedGraphs:
    """Build graphs from fields; items are nodes if there is one graph with node labels."""
    for name in (*_STRUCTURE[:3], *targets):
        if name in fields.unread:
            raise StageError(
                f"{where}: `{name}` must be a tensor of the same width in every graph. Add it to "
                "the graphs without it, or remove it from all of them."
            )
    edges = fields.array("edge_index")
    if edges is None:
        present = ", ".join(shown(name)[1:-1] for name in list(fields.values)[:20]) or "none"
        raise StageError(f"{where}: graphs have no `edge_index` (found fields: {present}).")
    edge_ptr, ends = edges[0], edges[1].astype(np.int64).T
    x = fields.array("x")
    guessed: tuple[str, ...] = ()
    if x is not None:
        node_ptr = x[0]
    else:
        node_ptr, guessed = _node_pointers(fields, edge_ptr, ends, where)
    check_local_endpoints(ends, node_ptr, edge_ptr, where)
    values = {name: _target(fields, name, node_ptr, where) for name in targets}
    nodes = fields.count == 1 and all(
        len(column) == node_ptr[-1] != 1 for column in values.values()
    )  # fmt: skip
    for name, column in values.items():
        if not nodes and len(column) != fields.count:
            raise StageError(
                f"{where}: `{name}` has {len(column):,} rows; expected one per graph "
                f"({fields.count:,}), or one per node of a single graph."
            )
    node_feat, node_words, edge_attr, edge_words = _features(fields, where, nodes=nodes)
    table, completed = graph_table(node_ptr, edge_ptr, ends, node_feat, edge_attr, where)
    matrix, names = _named(values, where)
    columns, unread = _columns(fields, targets, len(matrix))
    return ParsedGraphs(
        where=where,
        level="node" if nodes else "graph",
        table=table,
        node_words=node_words,
        edge_words=edge_words,
        targets=matrix,
        names=names,
        task=infer_task(matrix),
        columns=columns,
        splits=_splits_from_masks(fields, len(matrix), where) if nodes else None,
        env=_environments(columns.get("env_id")),
        warnings=(
            *guessed,
            *one_way_warning(completed),
            *_unread_warning(unread),
            *((EDGE_ATTR_IGNORED,) if nodes and "edge_attr" in fields.values else ()),
        ),
    )


def _node_pointers(
    fields: GraphFields, edge_ptr: Ints, ends: Ints, where: str
) -> tuple[Ints, tuple[str, ...]]:
    """Return pointers of nodes without features: from ``num_nodes``, else from the edges."""
    num_nodes = fields.array("num_nodes")
    if num_nodes is not None:
        counts = flatten_rows(num_nodes[1])
        if counts.shape != (fields.count, 1) or counts.dtype.kind not in "iu" or counts.min() < 0:
            raise StageError(f"{where}: `num_nodes` must be one non-negative integer per graph.")
        if counts.max() > 1 << 31 or counts.sum() > 1 << 31:
            raise StageError(
                f"{where}: `num_nodes` adds up to {counts.sum():,} nodes; the limit is {1 << 31:,}."
            )
        return pointers(counts[:, 0]), ()
    if ends.shape[1] and (ends.min() < 0 or ends.max() > 1 << 31):
        node = ends.min() if ends.min() < 0 else ends.max()
        raise StageError(
            f"{where}: `edge_index` contains node {node}. Node ids of a graph start at 0 and "
            f"are at most {1 << 31:,}."
        )
    highest = np.full(fields.count, -1, dtype=np.int64)
    owner = np.repeat(np.arange(fields.count), np.diff(edge_ptr))
    np.maximum.at(highest, owner, ends.max(axis=0, initial=-1))
    return pointers(highest + 1), (
        "graphs have neither `x` nor `num_nodes`: trailing nodes without edges are lost",
    )


def _target(fields: GraphFields, name: str, node_ptr: Ints, where: str) -> Array:
    """Return the values ``[n, T]`` of a target, one row per graph or per node."""
    field = fields.array(name)
    if field is None:
        raise StageError(
            f"{where}: graphs have no numeric field `{name}`. {did_you_mean(name, fields.values)} "
            "Select the target with `--target NAME`."
        )
    ptr, values = field
    values = flatten_rows(values).astype(np.float64)
    counts = np.diff(ptr)
    if fields.count == 1 and len(values) == node_ptr[-1]:
        return values
    if np.array_equal(counts, np.diff(node_ptr)) and (counts != 1).any():
        raise StageError(
            f"{where}: `{name}` has one value per node in {fields.count:,} graphs. Node labels "
            "need a single graph; merge the graphs into one."
        )
    if counts.min() != counts.max():
        raise StageError(
            f"{where}: graphs have {counts.min()} to {counts.max()} values of `{name}`; expected "
            "the same number for every graph."
        )
    return values.reshape(fields.count, -1) if values.shape[1] == 1 else values


def _named(values: Mapping[str, Array], where: str) -> tuple[Array, tuple[str, ...]]:
    """Return all targets ``[n, T]`` and their names."""
    check_num_targets(sum(columns.shape[1] for columns in values.values()), where)
    names = tuple(
        name if columns.shape[1] == 1 else f"{name}_{column}"
        for name, columns in values.items()
        for column in range(columns.shape[1])
    )
    return np.concatenate(list(values.values()), axis=1), names


def _features(fields: GraphFields, where: str, *, nodes: bool) -> tuple[Any, Any, Any, Any]:
    """Return node features, their categories, edge features, and their categories."""
    features: list[Any] = []
    for name, axis in (("x", "node"), ("edge_attr", "edge")):
        field = fields.array(name)
        values = None if field is None else flatten_rows(field[1])
        if nodes:  # node-level corpora have numeric node features and no edge features
            values = values.astype(np.float64) if values is not None and axis == "node" else None
        rows = fields.values["edge_index"][0][-1] if axis == "edge" else None
        if values is not None and rows is not None and len(values) != rows:
            raise StageError(f"{where}: `{name}` has {len(values):,} rows for {rows:,} edges.")
        features += infer_features(values, f"{axis}_feature", f"{where}: `{name}`")
    return tuple(features)


def _columns(
    fields: GraphFields, targets: Sequence[str], count: int
) -> tuple[dict[str, list[DomainKey]], list[str]]:
    """Return fields with one value per item, and the names of fields that are not read."""
    columns: dict[str, list[DomainKey]] = {}
    unread = list(fields.unread)
    for name, (ptr, values) in fields.values.items():
        if name in (*_STRUCTURE, *targets, *SPLIT_MASKS):
            continue
        flat = values if isinstance(values, list) else flatten_rows(values)
        single = isinstance(flat, list) or flat.shape[1] == 1
        per_item = len(flat) == count and (count == len(ptr) - 1 or len(ptr) == 2)
        if not single or not per_item:
            unread.append(name)
        elif isinstance(flat, list):
            columns[name] = list(flat)
        else:
            columns[name] = flat[:, 0].tolist()
    return columns, unread


def _environments(column: list[DomainKey] | None) -> Ints | None:
    """Return environment ids; None if there is no column of integers."""
    if column is None:
        return None
    ids = np.array(column)
    is_integer = ids.dtype.kind in "biu" or (
        ids.dtype.kind == "f" and bool((ids == np.round(ids)).all())
    )
    limit = np.iinfo(np.int32).max
    is_small = is_integer and bool(((ids >= -limit) & (ids <= limit)).all())
    return ids.astype(np.int64) if is_small else None


def _splits_from_masks(fields: GraphFields, count: int, where: str) -> Ints | None:
    """Return the split of every node from boolean masks; None without masks."""
    splits = np.full(count, UNUSED, dtype=np.int64)
    has_masks = False
    for name, code in SPLIT_MASKS.items():
        field = fields.array(name)
        if field is None:
            continue
        mask = field[1]
        if mask.shape != (count,):
            raise StageError(
                f"{where}: `{name}` has shape {list(mask.shape)}; expected [{count}]. If the file "
                "has several splits, keep one."
            )
        if not np.isin(mask, (0, 1)).all():
            raise StageError(f"{where}: `{name}` must contain only True and False, or 1 and 0.")
        overlap = np.flatnonzero(mask.astype(bool) & (splits != UNUSED))
        if len(overlap):
            raise StageError(
                f"{where}: node {int(overlap[0])} is in more than one split. Make the masks "
                "disjoint."
            )
        splits[mask.astype(bool)] = code
        has_masks = True
    return splits if has_masks else None


def _unread_warning(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    listed = ", ".join(map(shown, names[:10]))
    return (f"ignored fields without one number or text per item: {listed}",)
