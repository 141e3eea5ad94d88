"""Make graphs of the fields that files of torch hold: a user's PyG data (``pyg``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, did_you_mean
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.parsed import (
    ParsedGraphs,
    as_rows,
    check_local_ends,
    graph_table,
    one_way_warning,
    told_features,
)
from gsx.stages.prepare.readers.pt_files import Fields, read_fields
from gsx.stages.prepare.split_methods import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, UNUSED
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import infer_task

MASKS = {
    "train_mask": TRAIN,
    "id_val_mask": ID_VAL,
    "id_test_mask": ID_TEST,
    "val_mask": OOD_VAL,
    "test_mask": OOD_TEST,
}
"""Fields of nodes that say which split a node is in."""
EDGES_BARE = (
    "features of edges (`edge_attr`) are not read: where nodes are labelled, edges have none"
)
_STRUCTURE = ("x", "edge_index", "edge_attr", "num_nodes")


def read_pyg(path: Path, chosen: Mapping[str, Any]) -> ParsedGraphs:
    """Read the file of a user."""
    return found_of(read_fields(path, path.name), chosen["targets"] or ("y",), path.name)


def found_of(fields: Fields, targets: Sequence[str], where: str) -> ParsedGraphs:
    """Return graphs; where there is one and its nodes are labelled, nodes are the items."""
    for name in (*_STRUCTURE[:3], *targets):
        if name in fields.unread:
            raise StageError(
                f"{where}: `{name}` is not in every graph, or not as wide in each, or no tensor."
            )
    edges = fields.array("edge_index")
    if edges is None:
        have = ", ".join(fields.values) or "nothing"
        raise StageError(f"{where}: graphs have no `edge_index`; they have {have}.")
    edge_ptr, ends = edges[0], edges[1].astype(np.int64).T
    x = fields.array("x")
    guessed: tuple[str, ...] = ()
    if x is not None:
        node_ptr = x[0]
    else:
        node_ptr, guessed = _counted_nodes(fields, edge_ptr, ends, where)
    check_local_ends(ends, node_ptr, edge_ptr, where)
    values = {name: _target(fields, name, node_ptr, where) for name in targets}
    nodes = fields.count == 1 and all(
        len(each) == node_ptr[-1] != 1 for each in values.values()
    )  # fmt: skip
    for name, each in values.items():
        if not nodes and len(each) != fields.count:
            raise StageError(
                f"{where}: `{name}` has {len(each):,} rows; expected one for each of the "
                f"{fields.count:,} graphs, or for each node of one graph."
            )
    node_feat, node_words, edge_attr, edge_words = _features(fields, where, nodes=nodes)
    table, completed = graph_table(node_ptr, edge_ptr, ends, node_feat, edge_attr)
    matrix, names = _named(values)
    columns, unread = _columns(fields, targets, len(matrix))
    env = columns.get("env_id")
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
        given=_masked(fields, len(matrix), where) if nodes else None,
        env=None if env is None else np.array(env, dtype=np.int64),
        warnings=(
            *guessed,
            *one_way_warning(completed),
            *_unread(unread),
            *((EDGES_BARE,) if nodes and "edge_attr" in fields.values else ()),
        ),
    )


def _counted_nodes(
    fields: Fields, edge_ptr: Ints, ends: Ints, where: str
) -> tuple[Ints, tuple[str, ...]]:
    """Return pointers of nodes that have no features: as said, else as far as edges go."""
    said = fields.array("num_nodes")
    if said is not None:
        counts = as_rows(said[1])
        if counts.shape != (fields.count, 1) or counts.dtype.kind not in "iu" or counts.min() < 0:
            raise StageError(f"{where}: `num_nodes` must be one whole number for each graph.")
        if counts.max() > 1 << 31 or counts.sum() > 1 << 31:
            raise StageError(f"{where}: `num_nodes` says {counts.sum():,} nodes.")
        return pointers(counts[:, 0]), ()
    if ends.shape[1] and (ends.min() < 0 or ends.max() > 1 << 31):
        raise StageError(f"{where}: `edge_index` has node {ends.flat[ends.argmin()]}.")
    highest = np.full(fields.count, -1, dtype=np.int64)
    owner = np.repeat(np.arange(fields.count), np.diff(edge_ptr))
    np.maximum.at(highest, owner, ends.max(axis=0, initial=-1))
    return pointers(highest + 1), (
        "graphs have neither `x` nor `num_nodes`: nodes without edges, if any, are not known",
    )


def _target(fields: Fields, name: str, node_ptr: Ints, where: str) -> Array:
    """Return the values of a target ``[n, T]``, a row for each graph or each node."""
    found = fields.array(name)
    if found is None:
        raise StageError(
            f"{where}: graphs have no numbers `{name}`. {did_you_mean(name, fields.values)} Name what "
            "to learn with `--target NAME`."
        )
    ptr, values = found
    values = as_rows(values).astype(np.float64)
    each = np.diff(ptr)
    if fields.count == 1 and len(values) == node_ptr[-1]:
        return values
    if np.array_equal(each, np.diff(node_ptr)) and (each != 1).any():
        raise StageError(
            f"{where}: `{name}` is of nodes, in {fields.count:,} graphs. gsx learns labels of "
            "nodes on one graph; put them into one."
        )
    if each.min() != each.max():
        raise StageError(
            f"{where}: graphs have {each.min()} to {each.max()} values of `{name}`; expected as "
            "many for each."
        )
    return values.reshape(fields.count, -1) if values.shape[1] == 1 else values


def _named(values: Mapping[str, Array]) -> tuple[Array, tuple[str, ...]]:
    names = tuple(
        name if each.shape[1] == 1 else f"{name}_{place}"
        for name, each in values.items()
        for place in range(each.shape[1])
    )
    return np.concatenate(list(values.values()), axis=1), names


def _features(fields: Fields, where: str, *, nodes: bool) -> tuple[Any, Any, Any, Any]:
    """Return features and words of nodes and of edges."""
    parts: list[Any] = []
    for name, of in (("x", "node"), ("edge_attr", "edge")):
        found = fields.array(name)
        values = None if found is None else as_rows(found[1])
        if nodes:  # where nodes are labelled features are numbers, and edges have none
            values = values.astype(np.float32) if values is not None and of == "node" else None
        rows = fields.values["edge_index"][0][-1] if of == "edge" else None
        if values is not None and rows is not None and len(values) != rows:
            raise StageError(f"{where}: `{name}` has {len(values):,} rows for {rows:,} edges.")
        parts += told_features(values, f"{of}_feature", f"{where}: `{name}`")
    return tuple(parts)


def _columns(
    fields: Fields, targets: Sequence[str], count: int
) -> tuple[dict[str, list[DomainKey]], list[str]]:
    """Return what items may be sorted by, and the names of what is not read."""
    columns: dict[str, list[DomainKey]] = {}
    unread = list(fields.unread)
    for name, (ptr, values) in fields.values.items():
        if name in (*_STRUCTURE, *targets, *MASKS):
            continue
        flat = values if isinstance(values, list) else as_rows(values)
        single = isinstance(flat, list) or flat.shape[1] == 1
        per_item = len(flat) == count and (count == len(ptr) - 1 or len(ptr) == 2)
        if not single or not per_item:
            unread.append(name)
        elif isinstance(flat, list):
            columns[name] = list(flat)
        else:
            columns[name] = flat[:, 0].tolist()
    return columns, unread


def _masked(fields: Fields, count: int, where: str) -> Ints | None:
    """Return the split of every node that masks name; None without masks."""
    given = np.full(count, UNUSED, dtype=np.int64)
    seen = False
    for name, code in MASKS.items():
        found = fields.array(name)
        if found is None:
            continue
        mask = found[1]
        if mask.shape != (count,):
            raise StageError(
                f"{where}: `{name}` is of shape {list(mask.shape)}; expected [{count}]. Where a "
                "file has several splits, keep one."
            )
        again = np.flatnonzero(mask.astype(bool) & (given != UNUSED))
        if len(again):
            raise StageError(f"{where}: node {int(again[0])} is in more than one split.")
        given[mask.astype(bool)] = code
        seen = True
    return given if seen else None


def _unread(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return (f"not read, as it is no number or text for every item: {shown}",)
