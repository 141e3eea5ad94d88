"""Facts about graphs that add up over shards: counts, sizes, labels, oddities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints, rows_of
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.corpora.shared_edges import borrowers, replicas
from gsx.table import GraphTable

SIZE_BINS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096)
"""Lower edges of the size histogram; the last bin is open."""
_SMALL = 46_340
"""Nodes up to which a pair of them has a number of 32 bits."""

ODDITIES = ("self_loops", "repeated_edges", "graphs_without_nodes", "graphs_without_edges")


def shard_facts(table: GraphTable, info: CorpusInfo) -> dict[str, Any]:
    """Return counts, sizes and labels of ``table`` by split and environment."""
    split = table.dense("graph", "split")
    env = table.dense("graph", "env_id")
    words = info.column("split").vocabulary
    groups = []
    for code, env_id in _pairs(split, env):
        members = np.flatnonzero((split == code) & (env == env_id))
        groups.append({"split": words[code], "env_id": env_id, **_sizes(table, info, members)})
    oddities = _oddities(table)
    if info.level == "graph":
        return {"groups": groups, "oddities": oddities}
    oddities["graphs_without_edges"] -= int((borrowers(table) & (table.num_edges == 0)).sum())
    return {"groups": groups, "oddities": oddities, "node_groups": _nodes(table, info)}


def _nodes(table: GraphTable, info: CorpusInfo) -> list[dict[str, Any]]:
    """Return counts and labels of labelled nodes by their split and environment.

    Of replicas training nodes count; the others are those of the graph they repeat.
    """
    split, env = table.dense("node", "node_split"), table.dense("node", "node_env_id")
    label = table.dense("node", "node_label")
    classes = len(info.outputs) if info.task == "classification" else 2
    words = info.column("node_split").vocabulary
    again = replicas(table)[rows_of(table.node_ptr)] & (split != SPLITS.index("train"))
    split, env, label = (values[~again] for values in (split, env, label))
    groups = []
    for code, env_id in _pairs(split, env):
        labels = label[(split == code) & (env == env_id)]
        groups.append(
            {
                "split": words[code],
                "env_id": env_id,
                "count": len(labels),
                "labels": np.bincount(labels[labels >= 0], minlength=classes).tolist(),
            }
        )
    return groups


def _pairs(split: Array, env: Array) -> list[tuple[int, int]]:
    """Return every split and environment that occur together, in order."""
    found = np.unique(split.astype(np.int64) * (1 << 32) + env)
    codes = (found + (1 << 31)) >> 32
    return list(zip(codes.tolist(), (found - (codes << 32)).tolist(), strict=True))


def _sizes(table: GraphTable, info: CorpusInfo, members: Ints) -> dict[str, Any]:
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
        "repeated_edges": _repeated(table, src, dst),
        "graphs_without_nodes": int((table.num_nodes == 0).sum()),
        "graphs_without_edges": int((table.num_edges == 0).sum()),
    }


def _repeated(table: GraphTable, src: Array, dst: Array) -> int:
    """Count edges that stand more than once; sorted edges cost one comparison each."""
    size = int(table.num_nodes.max(initial=1))
    step = np.diff(src.astype(np.int32 if size <= _SMALL else np.int64, copy=False) * size + dst)
    first = table.edge_ptr[1:-1]
    step[first[(first > 0) & (first < len(src))] - 1] = 1  # from one graph to the next
    if len(step) and step.min() < 0:
        start = np.repeat(table.node_ptr[:-1], table.num_edges)
        step = np.diff(np.sort((start + src) * size + dst))
    return int((step == 0).sum())


def merge_facts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up facts about the parts of one shard, as if they were of one table."""
    found: dict[str, Any] = {
        "groups": sorted(merge_groups(parts), key=_place),
        "oddities": merge_oddities(parts),
    }
    if all("node_groups" in part for part in parts):
        found["node_groups"] = merge_node_groups(parts)
    return found


def merge_groups(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up the groups of many shards, in the order of splits and environments first seen."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for group in (group for part in parts for group in part["groups"]):
        name = (group["split"], group["env_id"])
        old = merged.get(name)
        merged[name] = dict(group) if old is None else _add(old, group)
    return list(merged.values())


def merge_node_groups(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up the groups of nodes of many shards, by split and environment."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for group in (group for part in parts for group in part["node_groups"]):
        name = (group["split"], group["env_id"])
        old = merged.setdefault(name, {**group, "count": 0, "labels": [0] * len(group["labels"])})
        old["count"] += group["count"]
        old["labels"] = [a + b for a, b in zip(old["labels"], group["labels"], strict=True)]
    return sorted(merged.values(), key=_place)


def _place(group: Mapping[str, Any]) -> tuple[int, int]:
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
    """Add up the oddities of many shards."""
    found = list(parts)
    return {name: sum(part["oddities"][name] for part in found) for name in ODDITIES}
