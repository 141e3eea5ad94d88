"""Hashes after Weisfeiler and Lehman: graphs that are equal up to order have equal hashes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gsx._native import compiled
from gsx.ragged import Array, pointers
from gsx.stages.graphs.edges import global_edges
from gsx.table import GraphTable

loops = compiled("gsx.stages.graphs._wl_hash")

Hashes = npt.NDArray[np.uint64]

ROUNDS = 4
_EDGE = np.uint64(0x9E3779B97F4A7C15)
_OWN = np.uint64(0xD6E8FEB86659FD93)
_AT_ONCE = 1 << 17
"""Nodes and edges in hand at once, few enough for the cache of a processor."""


def wl_hashes(table: GraphTable, rounds: int = ROUNDS) -> Hashes:
    """Return a 64-bit hash of every graph: structure, node features and edge attributes.

    The order of nodes and edges does not matter. Sums wrap around, so a running sum and its
    differences give exact sums per node and per graph.
    """
    found = np.empty(len(table), dtype=np.uint64)
    plain = table.select(["node_feat", "edge_attr"])
    for start, stop in _pieces(table):
        part = plain.slice(start, stop)
        found[start:stop] = _hashes(part, rounds)
    return found


def _hashes(table: GraphTable, rounds: int) -> Hashes:
    if loops is None:
        color = node_colors(table, rounds)[-1]
        sums = _sums(_mix(color), table.node_ptr)
        return _mix(sums + table.num_nodes.astype(np.uint64))
    color, attr = _first_colors(table)
    src, dst = (
        np.ascontiguousarray(table.dense("edge", name), dtype=np.int32)
        for name in ("edge_src", "edge_dst")
    )
    attr = np.zeros(0, dtype=np.uint64) if attr is None else attr
    found = np.empty(len(table), dtype=np.uint64)
    loops.graph_hashes(color, attr, src, dst, table.node_ptr, table.edge_ptr, rounds, found)
    return found


def _pieces(table: GraphTable) -> Iterator[tuple[int, int]]:
    """Cut graphs into runs of about so many nodes and edges as are in hand at once."""
    before = table.node_ptr + table.edge_ptr
    starts = np.searchsorted(before, np.arange(_AT_ONCE, before[-1], _AT_ONCE))
    return pairwise([0, *np.unique(starts).tolist(), len(table)])


def are_among(hashes: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    """Say of every hash whether it is among those ``known``, which are sorted."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    found = known.take(np.searchsorted(known, hashes), mode="clip")
    return np.asarray(found == hashes)


def node_colors(table: GraphTable, rounds: int) -> list[Hashes]:
    """Return a hash of every node's surroundings, before the first round and after each."""
    color, attr = _first_colors(table)
    src, dst = global_edges(table)
    if len(src) and (src[1:] < src[:-1]).any():
        order = np.argsort(src, kind="stable")
        dst, attr = dst[order], None if attr is None else attr[order]
    ptr = pointers(np.bincount(src, minlength=table.total_nodes))
    colors = [color]
    for _ in range(rounds):
        # Where edges are all alike, one hash per node does what one per edge would.
        near = _mix(color ^ _EDGE).take(dst) if attr is None else _mix(color.take(dst) ^ attr)
        color = _mix(color * _OWN + _sums(near, ptr))
        colors.append(color)
    return colors


def _first_colors(table: GraphTable) -> tuple[Hashes, Hashes | None]:
    """Return a hash of every node's features and of every edge's, None where edges are alike."""
    color = _row_hashes(table.node.get("node_feat"), table.total_nodes)
    attr = table.edge.get("edge_attr")
    if not isinstance(attr, np.ndarray):
        return color, None
    return color, _row_hashes(attr, table.total_edges) * _EDGE


def _row_hashes(values: object, rows: int) -> Hashes:
    """Return a hash of every row of numbers; equal rows have equal hashes."""
    found = np.full(rows, 1, dtype=np.uint64)
    if not isinstance(values, np.ndarray):
        return found
    if loops is not None:
        loops.row_hashes(np.ascontiguousarray(values, dtype=np.float64), found)
        return found
    for column in values.T:
        # Adding zero makes -0.0 and 0.0 the same bits.
        bits: Array = (column.astype(np.float64) + 0.0).view(np.uint64)
        found *= _OWN
        found += bits
        found = _mix(found)
    return found


def _sums(values: Hashes, ptr: npt.NDArray[np.int64]) -> Hashes:
    total = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=total[1:])
    ends = total.take(ptr)
    return np.asarray(ends[1:] - ends[:-1])


def _mix(values: Hashes) -> Hashes:
    """Scatter every bit over the whole word (the finalizer of splitmix64)."""
    found = values >> np.uint64(30)
    found ^= values
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found *= np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found
