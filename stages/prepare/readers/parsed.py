"""What readers of a user's graphs hand on, whatever files the graphs came in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers
from gsx.schema import Column, Feature, Level, corpus_columns
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import TaskOption
from gsx.table import GraphTable

_MOST_WORDS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedGraphs:
    """Graphs as they were read; what is labelled, graphs or the nodes of one, are its items."""

    where: str
    """Stands for the files in errors."""
    level: Level = "graph"
    table: GraphTable
    """Structure and features, edges sorted and in both directions; no graph columns."""
    node_words: tuple[Feature, ...] = ()
    """Words of the node features, where those are categories."""
    edge_words: tuple[Feature, ...] = ()
    targets: Array
    """``[n, T]`` numbers to learn, NaN where not known."""
    names: tuple[str, ...]
    """What each target is called."""
    task: TaskOption = "auto"
    """What the targets look like, for users who do not say."""
    columns: Mapping[str, Sequence[DomainKey]] = field(default_factory=dict)
    """Further facts per item, by name: what items may be sorted by."""
    given: Ints | None = None
    """``[n]`` split of every item where the files say so, -1 for none."""
    env: Ints | None = None
    """``[n]`` environment of every item where the files say so, -1 for none."""
    warnings: tuple[str, ...] = ()


def features(
    labels: Array | None, values: Array | None, name: str
) -> tuple[Array | None, tuple[Feature, ...]]:
    """Return labels as codes with words, or values; both together as values and one-hot labels."""
    if labels is None:
        return values, ()
    width = labels.shape[1]
    names = [name] if width == 1 else [f"{name}_{place}" for place in range(width)]
    codes, words = np.empty_like(labels), []
    for place in range(width):
        known, codes[:, place] = np.unique(labels[:, place], return_inverse=True)
        words.append(tuple(map(str, known.tolist())))
    if values is not None:
        hot = [np.eye(len(each), dtype=np.float32)[codes[:, place]]
               for place, each in enumerate(words)]  # fmt: skip
        return np.concatenate([values, *hot], axis=1), ()
    most = max(len(each) for each in words)
    if most > _MOST_WORDS:
        raise StageError(f"{most:,} different values of {name}: these are no categories.")
    dtype = np.uint8 if most <= 256 else np.uint16
    found = tuple(Feature(name=n, words=w) for n, w in zip(names, words, strict=True))
    return codes.astype(dtype), found


def as_rows(values: Array) -> Array:
    """Return values with one axis for rows and one for the numbers of a row."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def told_features(
    values: Array | None, name: str, where: str
) -> tuple[Array | None, tuple[Feature, ...]]:
    """Return features ``[n, F]`` of files that do not say what these are.

    Whole numbers are categories, unless each is 0 or 1; anything else is a value, and finite.
    """
    if values is None or not values.shape[1]:
        return None, ()
    if values.dtype.kind == "b" or not len(values):
        return values.astype(np.float32), ()
    if values.dtype.kind in "iu" and (values.min() < 0 or values.max() > 1):
        return features(values.astype(np.int64), None, name)
    found = values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(bad):
        raise StageError(
            f"{where}, row {int(bad[0])}: a feature is not finite ({len(bad):,} such rows). Clean "
            "the data; gsx does not guess features."
        )
    return found, ()


def both_ways(
    src: Ints, dst: Ints, attr: Array | None, nodes: int
) -> tuple[Ints, Ints, Array | None, int]:
    """Return the edges sorted, with the other direction of those that stand alone added."""
    alone = np.flatnonzero(~np.isin(dst * nodes + src, src * nodes + dst))
    if len(alone):
        src, dst = np.concatenate([src, dst[alone]]), np.concatenate([dst, src[alone]])
        attr = None if attr is None else np.concatenate([attr, attr[alone]])
    order = np.argsort(src * nodes + dst, kind="stable")
    return src[order], dst[order], None if attr is None else attr[order], len(alone)


def one_way_warning(completed: int) -> tuple[str, ...]:
    """Say how many edges files have in one direction only."""
    if not completed:
        return ()
    return (
        f"{completed:,} edges of the raw files stand in one direction only; the other was added",
    )


def graph_table(
    node_ptr: Ints, edge_ptr: Ints, ends: Ints, node_feat: Array | None, edge_attr: Array | None
) -> tuple[GraphTable, int]:
    """Return graphs of edges ``[2, E]`` of local node numbers, and how many edges were completed.

    Nodes without features get a 1 each.
    """
    nodes = int(node_ptr[-1])
    first = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    src, dst, edge_attr, completed = both_ways(ends[0] + first, ends[1] + first, edge_attr, nodes)
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


def check_local_ends(ends: Ints, node_ptr: Ints, edge_ptr: Ints, where: str) -> None:
    """Refuse edges ``[2, E]`` to nodes that their graph does not have."""
    limit = np.repeat(np.diff(node_ptr), np.diff(edge_ptr))
    bad = np.flatnonzero(((ends < 0) | (ends >= limit)).any(axis=0))
    if len(bad):
        graph = int(np.searchsorted(edge_ptr, bad[0], side="right")) - 1
        raise StageError(
            f"{where}: graph {graph} has an edge between nodes {ends[:, bad[0]].tolist()}, and "
            f"{int(limit[bad[0]])} nodes, numbered from 0."
        )


def found_columns(
    table: GraphTable,
    node_words: tuple[Feature, ...],
    edge_words: tuple[Feature, ...],
    *,
    outputs: int,
) -> tuple[Column, ...]:
    """Return the columns of a corpus of such graphs."""
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
