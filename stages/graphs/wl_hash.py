"""Weisfeiler-Lehman hashes: isomorphic graphs have equal hashes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gsx._native import load_extension
from gsx.ragged import Array, pointers
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

native = load_extension("gsx.stages.graphs._wl_hash")

Hashes = npt.NDArray[np.uint64]

ROUNDS = 4
_EDGE = np.uint64(0x9E3779B97F4A7C15)
_OWN = np.uint64(0xD6E8FEB86659FD93)
_RUN_SIZE = 1 << 17
"""Nodes and edges per run, few enough for a processor's cache."""


def wl_hashes(table: GraphTable, rounds: int = ROUNDS) -> Hashes:
    """Return a 64-bit hash of every graph: structure, node features and edge attributes.

    The order of nodes and edges does not matter. Unsigned sums wrap around, so differences of a
    cumulative sum are exact sums per node and per graph.
    """
    hashes = np.empty(len(table), dtype=np.uint64)
    plain = table.select(["node_feat", "edge_attr"])
    for start, stop in _cache_sized_runs(table):
        hashes[start:stop] = _hashes(plain.slice(start, stop), rounds)
    return hashes


def _hashes(table: GraphTable, rounds: int) -> Hashes:
    if native is None:
        color = node_colors(table, rounds)[-1]
        sums = _sums(_mix(color), table.node_ptr)
        return _mix(sums + table.num_nodes.astype(np.uint64))
    color, attr = _first_colors(table)
    src, dst = (
        np.ascontiguousarray(table.dense("edge", name), dtype=np.int32)
        for name in ("edge_src", "edge_dst")
    )
    attr = np.zeros(0, dtype=np.uint64) if attr is None else attr
    hashes = np.empty(len(table), dtype=np.uint64)
    native.graph_hashes(color, attr, src, dst, table.node_ptr, table.edge_ptr, rounds, hashes)
    return hashes


def _cache_sized_runs(table: GraphTable) -> Iterator[tuple[int, int]]:
    """Return bounds of runs of graphs that fit into the cache: ``_RUN_SIZE`` nodes and edges."""
    before = table.node_ptr + table.edge_ptr
    starts = np.searchsorted(before, np.arange(_RUN_SIZE, before[-1], _RUN_SIZE))
    return pairwise([0, *np.unique(starts).tolist(), len(table)])


def contained_in(hashes: Hashes, sorted_hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return whether each hash occurs in ``sorted_hashes``."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), dtype=bool)
    nearest = sorted_hashes.take(np.searchsorted(sorted_hashes, hashes), mode="clip")
    return np.asarray(nearest == hashes)


def labelled_hashes(hashes: Hashes, y: Array) -> Hashes:
    """Return hashes that depend on the label ``y`` ``[G, C]`` of every graph, too."""
    return _mix(hashes * _OWN + _row_hashes(y, len(y)))


def node_colors(table: GraphTable, rounds: int) -> list[Hashes]:
    """Return a hash of every node's neighborhood, before the first round and after each round."""
    color, attr = _first_colors(table)
    src, dst = global_edges(table)
    if len(src) and (src[1:] < src[:-1]).any():
        order = np.argsort(src, kind="stable")
        dst, attr = dst[order], None if attr is None else attr[order]
    ptr = pointers(np.bincount(src, minlength=table.total_nodes))
    colors = [color]
    for _ in range(rounds):
        # Without edge attributes, one hash per node replaces one per edge.
        near = _mix(color ^ _EDGE).take(dst) if attr is None else _mix(color.take(dst) ^ attr)
        color = _mix(color * _OWN + _sums(near, ptr))
        colors.append(color)
    return colors


def _first_colors(table: GraphTable) -> tuple[Hashes, Hashes | None]:
    """Return hashes of node features and of edge attributes; None without edge attributes."""
    color = _row_hashes(table.node.get("node_feat"), table.total_nodes)
    attr = table.edge.get("edge_attr")
    if not isinstance(attr, np.ndarray):
        return color, None
    return color, _row_hashes(attr, table.total_edges) * _EDGE


def _row_hashes(values: object, rows: int) -> Hashes:
    """Return a hash of every row of numbers; equal rows have equal hashes."""
    hashes = np.full(rows, 1, dtype=np.uint64)
    if not isinstance(values, np.ndarray):
        return hashes
    if native is not None:
        native.row_hashes(np.ascontiguousarray(values, dtype=np.float64), hashes)
        return hashes
    for column in values.T:
        # Adding zero turns -0.0 into 0.0, so that both have the same bits.
        bits: Array = (column.astype(np.float64) + 0.0).view(np.uint64)
        hashes *= _OWN
        hashes += bits
        hashes = _mix(hashes)
    return hashes


def _sums(values: Hashes, ptr: npt.NDArray[np.int64]) -> Hashes:
    total = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=total[1:])
    ends = total.take(ptr)
    return np.asarray(ends[1:] - ends[:-1])


def _mix(values: Hashes) -> Hashes:
    """Apply the finalizer of splitmix64, which diffuses every bit over the whole word."""
    word = values >> np.uint64(30)
    word ^= values
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return word
