"""Mergeable statistics of shards: counts, sizes, labels and structural oddities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.corpora.shared_edges import is_replica, shares_parent_edges
from gsx.table import GraphTable

SIZE_BINS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096)
"""Lower edges of the size histogram; the last bin is open."""
_MAX_INT32_NODES = 46_340
"""Largest number of nodes for which a pair of nodes has a 32-bit code."""

ODDITIES = ("self_loops", "repeated_edges", "graphs_without_nodes", "graphs_without_edges")


def compute_shard_stats(table: GraphTable, info: CorpusInfo) -> dict[str, Any]:
    """Return counts, sizes and labels of ``table`` by split and environment, and oddities."""
    split = table.dense("graph", "split")
    env = table.dense("graph", "env_id")
    split_names = info.column("split").vocabulary
    groups = []
    for code, env_id in _pairs(split, env):
        members = np.flatnonzero((split == code) & (env == env_id))
        stats = _group_stats(table, info, members)
        groups.append({"split": split_names[code], "env_id": env_id, **stats})
    oddities = _oddities(table)
    if info.level == "graph":
        return {"groups": groups, "oddities": oddities}
    shared = shares_parent_edges(table) & (table.num_edges == 0)
    oddities["graphs_without_edges"] -= int(shared.sum())
    return {"groups": groups, "oddities": oddities, "node_groups": _node_groups(table, info)}


def _node_groups(table: GraphTable, info: CorpusInfo) -> list[dict[str, Any]]:
    """Return counts and labels of labelled nodes by split and environment of the node.

    Only training nodes of replicas count; their other nodes are counted with the parent.
    """
    split, env = table.dense("node", "node_split"), table.dense("node", "node_env_id")
    label = table.dense("node", "node_label")
    classes = len(info.outputs) if info.task == "classification" else 2
    split_names = info.column("node_split").vocabulary
    in_replica = is_replica(table)[row_indices(table.node_ptr)]
    repeated = in_replica & (split != SPLITS.index("train"))
    split, env, label = (values[~repeated] for values in (split, env, label))
    groups = []
    for code, env_id in _pairs(split, env):
        labels = label[(split == code) & (env == env_id)]
        groups.append(
            {
                "split": split_names[code],
                "env_id": env_id,
                "count": len(labels),
                "labels": np.bincount(labels[labels >= 0], minlength=classes).tolist(),
            }
        )
    return groups


def _pairs(split: Array, env: Array) -> list[tuple[int, int]]:
    """Return all pairs of split and environment that occur, sorted."""
    packed = np.unique(split.astype(np.int64) * (1 << 32) + env)
    codes = (packed + (1 << 31)) >> 32
    return list(zip(codes.tolist(), (packed - (codes << 32)).tolist(), strict=True))


def _group_stats(table: GraphTable, info: CorpusInfo, members: Ints) -> dict[str, Any]:
    nodes = table.num_nodes[members]
    labels = table.dense("graph", "label")[members] if info.level == "graph" else members[:0]
    classes = len(info.outputs) if info.task == "classification" else 2
    bins = np.searchsorted(SIZE_BINS, nodes, side="right") - 1
    return {
        "count": len(members),
        "nodes": int(nodes.sum()),
        "edges": int(table.num_edges[members].sum()),
        "min_nodes": int(nodes.min()),
        "max_nodes": int(nodes.max()),
        "labels": np.bincount(labels[labels >= 0], minlength=classes).tolist(),
        "sizes": np.bincount(bins, minlength=len(SIZE_BINS)).tolist(),
    }


def _oddities(table: GraphTable) -> dict[str, int]:
    src, dst = table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")
    return {
        "self_loops": int((src == dst).sum()),
        "repeated_edges": _count_repeated_edges(table, src, dst),
        "graphs_without_nodes": int((table.num_nodes == 0).sum()),
        "graphs_without_edges": int((table.num_edges == 0).sum()),
    }


def _count_repeated_edges(table: GraphTable, src: Array, dst: Array) -> int:
    """Count repetitions of edges; sorted edges need one comparison each."""
    size = int(table.num_nodes.max(initial=1))
    dtype = np.int32 if size <= _MAX_INT32_NODES else np.int64
    step = np.diff(src.astype(dtype, copy=False) * size + dst)
    first = table.edge_ptr[1:-1]
    step[first[(first > 0) & (first < len(src))] - 1] = 1  # from one graph to the next
    if len(step) and step.min() < 0:
        start = np.repeat(table.node_ptr[:-1], table.num_edges)
        step = np.diff(np.sort((start + src) * size + dst))
    return int((step == 0).sum())


def merge_shard_stats(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the statistics of the tables of one shard, as if they were one table."""
    merged: dict[str, Any] = {
        "groups": sorted(merge_groups(parts), key=_sort_key),
        "oddities": merge_oddities(parts),
    }
    if all("node_groups" in part for part in parts):
        merged["node_groups"] = merge_node_groups(parts)
    return merged


def merge_groups(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups of graphs, in the order in which splits and environments first occur."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for group in (group for part in parts for group in part["groups"]):
        key = (group["split"], group["env_id"])
        previous = merged.get(key)
        merged[key] = dict(group) if previous is None else _add(previous, group)
    return list(merged.values())


def merge_node_groups(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups of nodes, sorted by split and environment."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for group in (group for part in parts for group in part["node_groups"]):
        key = (group["split"], group["env_id"])
        total = merged.setdefault(key, {**group, "count": 0, "labels": [0] * len(group["labels"])})
        total["count"] += group["count"]
        total["labels"] = [a + b for a, b in zip(total["labels"], group["labels"], strict=True)]
    return sorted(merged.values(), key=_sort_key)


def _sort_key(group: Mapping[str, Any]) -> tuple[int, int]:
    return SPLITS.index(group["split"]), group["env_id"]


def _add(left: dict[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **left,
        **{name: left[name] + right[name] for name in ("count", "nodes", "edges")},
        "min_nodes": min(left["min_nodes"], right["min_nodes"]),
        "max_nodes": max(left["max_nodes"], right["max_nodes"]),
        "labels": [a + b for a, b in zip(left["labels"], right["labels"], strict=True)],
        "sizes": [a + b for a, b in zip(left["sizes"], right["sizes"], strict=True)],
    }


def merge_oddities(parts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Sum the oddities of shards."""
    listed = list(parts)
    return {name: sum(part["oddities"][name] for part in listed) for name in ODDITIES}
