"""Common result of all readers of user graphs, and helpers that build it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gsx.errors import StageError
from gsx.limits import COLUMNS, EXPANDED_BYTES, NODES
from gsx.ragged import Array, Ints, pointers
from gsx.schema import Column, Feature, Level, corpus_columns
from gsx.stages.prepare.readers.limits import NODES_PER_EDGE
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import TaskOption
from gsx.table import GraphTable

_MAX_CATEGORIES = 1 << 16
_MAX_NODES = 1 << 31
"""Nodes of all graphs: pairs of node ids must fit in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedGraphs:
    """Graphs parsed from files; the labelled *items* are graphs, or the nodes of one graph."""

    where: str
    """Name of the files in error messages."""
    level: Level = "graph"
    table: GraphTable
    """Structure and features, edges sorted and in both directions; no graph columns."""
    node_words: tuple[Feature, ...] = ()
    """Names and categories of categorical node features; empty for numeric features."""
    edge_words: tuple[Feature, ...] = ()
    """Names and categories of categorical edge features; empty for numeric features."""
    feature_names: tuple[str, ...] = ()
    """Names of numeric node features; empty if they have none."""
    targets: Array
    """``[n, T]`` target values, NaN if missing."""
    names: tuple[str, ...]
    """Name of each target."""
    classes: tuple[str, ...] = ()
    """Names of the classes whose codes are the target; empty for numbers."""
    task: TaskOption = "auto"
    """Task inferred from the files, used if the user does not set one."""
    columns: Mapping[str, Sequence[DomainKey]] = field(default_factory=dict)
    """Name → value per item, for columns that can serve as domain or split."""
    splits: Ints | None = None
    """``[n]`` split of every item, -1 for none; None if the files contain no splits."""
    env: Ints | None = None
    """``[n]`` environment id of every item, -1 for none; None if the files contain none."""
    warnings: tuple[str, ...] = ()


def encode_features(
    labels: Array | None, values: Array | None, name: str
) -> tuple[Array | None, tuple[Feature, ...]]:
    """Encode categorical labels ``[n, K]`` and numeric values ``[n, F]`` as features.

    Labels alone become category codes with names; values alone stay as they are; both together
    become the values followed by one-hot labels.
    """
    if labels is None:
        return values, ()
    width = labels.shape[1]
    names = [name] if width == 1 else [f"{name}_{column}" for column in range(width)]
    codes, categories = np.empty(labels.shape, dtype=np.int64), []
    for column in range(width):
        distinct, codes[:, column] = np.unique(labels[:, column], return_inverse=True)
        categories.append(tuple(map(str, distinct.tolist())))
    if values is not None:
        one_hot = [_one_hot(codes[:, column], len(words), name)
                   for column, words in enumerate(categories)]  # fmt: skip
        return np.concatenate([values, *one_hot], axis=1), ()
    largest = max(len(words) for words in categories)
    if largest > _MAX_CATEGORIES:
        raise StageError(
            f"{name} has {largest:,} distinct values; categorical features have at most "
            f"{_MAX_CATEGORIES:,}. Store them as real numbers."
        )
    dtype = np.uint8 if largest <= 256 else np.uint16
    features = tuple(Feature(name=n, words=w) for n, w in zip(names, categories, strict=True))
    return codes.astype(dtype), features


def _one_hot(codes: Ints, categories: int, name: str) -> Array:
    """Return one-hot codes ``[n, categories]``."""
    size = 4 * len(codes) * categories
    if size > EXPANDED_BYTES.value:
        raise StageError(
            f"{name} has {categories:,} distinct values in {len(codes):,} rows, whose one-hot "
            f"codes have {size:,} bytes; the limit is {EXPANDED_BYTES.value:,}. Store them as real "
            f"numbers. {EXPANDED_BYTES.advice}"
        )
    one_hot = np.zeros((len(codes), categories), dtype=np.float32)
    one_hot[np.arange(len(codes)), codes] = 1
    return one_hot


def flatten_rows(values: Array) -> Array:
    """Reshape values to two axes: rows, and all values of a row."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def infer_features(
    values: Array | None, name: str, where: str
) -> tuple[Array | None, tuple[Feature, ...]]:
    """Encode features ``[n, F]`` of unknown type.

    Integers are categories, unless all are 0 or 1. Everything else is numeric and must be finite.
    """
    if values is None or not values.shape[1]:
        return None, ()
    if values.shape[1] > COLUMNS.value:
        raise StageError(
            f"{where}: {values.shape[1]:,} features; the limit is {COLUMNS.value:,}. "
            f"{COLUMNS.advice}"
        )
    if values.dtype.kind == "b" or not len(values):
        return values.astype(np.float32), ()
    if values.dtype.kind in "iu" and (values.min() < 0 or values.max() > 1):
        return encode_features(values, None, name)
    with np.errstate(over="ignore"):  # values beyond float32 become infinite and are refused
        numeric = values.astype(np.float32)
    invalid_rows = np.flatnonzero(~np.isfinite(numeric).all(axis=1))
    if len(invalid_rows):
        raise StageError(
            f"{where}, row {int(invalid_rows[0])}: a feature is not finite "
            f"({len(invalid_rows):,} rows in total). Replace NaN and infinite values; gsx does not "
            "impute features."
        )
    return numeric, ()


def add_reverse_edges(
    src: Ints, dst: Ints, attr: Array | None, nodes: int
) -> tuple[Ints, Ints, Array | None, int]:
    """Return edges in both directions, sorted, and the number of reverse edges that were added."""
    one_way = np.flatnonzero(~np.isin(dst * nodes + src, src * nodes + dst))
    if len(one_way):
        src, dst = np.concatenate([src, dst[one_way]]), np.concatenate([dst, src[one_way]])
        attr = None if attr is None else np.concatenate([attr, attr[one_way]])
    order = np.argsort(src * nodes + dst, kind="stable")
    return src[order], dst[order], None if attr is None else attr[order], len(one_way)


def one_way_warning(completed: int) -> tuple[str, ...]:
    """Return a warning about ``completed`` edges that the files contain in one direction only."""
    if not completed:
        return ()
    return (f"{completed:,} edges occur in one direction only; the reverse edges were added",)


def graph_table(
    node_ptr: Ints,
    edge_ptr: Ints,
    ends: Ints,
    node_feat: Array | None,
    edge_attr: Array | None,
    where: str,
) -> tuple[GraphTable, int]:
    """Build graphs from edges ``[2, E]`` of local node ids; return them and the added edges.

    Nodes without features get one constant feature, 1.
    """
    nodes = int(node_ptr[-1])
    if node_feat is None:
        _check_declared_nodes(nodes, ends.shape[1], where)
    first = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    src, dst, edge_attr, completed = add_reverse_edges(
        ends[0] + first, ends[1] + first, edge_attr, nodes
    )
    owner = np.searchsorted(node_ptr, src, side="right") - 1
    edge: dict[str, Array] = {
        "edge_src": (src - node_ptr[owner]).astype(np.int32),
        "edge_dst": (dst - node_ptr[owner]).astype(np.int32),
    }
    if edge_attr is not None:
        edge["edge_attr"] = edge_attr
    if node_feat is None:
        node_feat = np.ones((nodes, 1), dtype=np.float32)
    counts = np.bincount(owner, minlength=len(node_ptr) - 1)
    return GraphTable(node_ptr, pointers(counts), node={"node_feat": node_feat}, edge=edge), (
        completed
    )


def _check_declared_nodes(nodes: int, edges: int, where: str) -> None:
    """Reject more nodes than the file supports: nodes without features are only a number in it."""
    limit = min(max(NODES.value, NODES_PER_EDGE * edges), _MAX_NODES)
    if nodes > limit:
        raise StageError(
            f"{where} declares {nodes:,} nodes without features and {edges:,} edges; the limit is "
            f"{limit:,} nodes. Add node features. {NODES.advice}"
        )


def check_local_endpoints(ends: Ints, node_ptr: Ints, edge_ptr: Ints, where: str) -> None:
    """Reject edges ``[2, E]`` to nodes that do not exist in their graph."""
    limit = np.repeat(np.diff(node_ptr), np.diff(edge_ptr))
    invalid = np.flatnonzero(((ends < 0) | (ends >= limit)).any(axis=0))
    if len(invalid):
        graph = int(np.searchsorted(edge_ptr, invalid[0], side="right")) - 1
        raise StageError(
            f"{where}: graph {graph} has an edge between nodes {ends[:, invalid[0]].tolist()}, but "
            f"only {int(limit[invalid[0]])} nodes. Node ids of a graph start at 0."
        )


def table_columns(
    table: GraphTable,
    node_words: tuple[Feature, ...],
    edge_words: tuple[Feature, ...],
    *,
    outputs: int,
) -> tuple[Column, ...]:
    """Return the columns of a corpus with the features of ``table``."""
    node = table.dense("node", "node_feat")
    edge = table.edge.get("edge_attr")
    dense = edge if isinstance(edge, np.ndarray) else None
    return corpus_columns(
        outputs=outputs,
        num_features=node.shape[1],
        feature_dtype=str(node.dtype),
        feature_words=node_words,
        edge_features=0 if dense is None else dense.shape[1],
        edge_feature_dtype="float32" if dense is None else str(dense.dtype),
        edge_feature_words=edge_words,
    )
