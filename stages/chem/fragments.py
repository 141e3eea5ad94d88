"""Where molecules may be cut, and how many bonds their pieces can take: array code, no chemistry.

Works on tables whose ``node_feat`` and ``edge_attr`` are the features of ``atoms``. A cut bond is a
single bond outside rings; each of its ends gets a hydrogen in its place, so a piece stands alone as
a molecule, and a hydrogen is a place where a bond may be added again.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, depth_first_order

from gsx.ragged import Ints, row_indices
from gsx.stages.chem.features import (
    ATOMIC_NUM,
    BOND_TYPE,
    DOUBLE,
    HYDROGEN,
    NUM_HS,
    SINGLE,
    TRIPLE,
)
from gsx.stages.graphs.subgraphs import Bools, global_edges
from gsx.table import GraphTable


def acyclic(table: GraphTable) -> Bools:
    """Say of every edge whether it lies on no cycle, ``[E]``; graphs must be simple.

    Tarjan's test: in a walk through the whole table that visits subtrees one after another, an
    edge to a subtree is on no cycle when no other edge leaves the subtree.
    """
    src, dst = global_edges(table)
    size = table.total_nodes
    if not size:
        return np.zeros(0, dtype=bool)
    place, parent, end = _walk(src, dst, size)
    low = np.arange(size)
    high = low.copy()
    other = (parent[src] != dst) & (parent[dst] != src)
    np.minimum.at(low, place[src[other]], place[dst[other]])
    np.maximum.at(high, place[src[other]], place[dst[other]])
    bounds = np.stack([np.arange(size), end], axis=1).reshape(-1)
    low = np.minimum.reduceat(np.append(low, size), bounds)[::2]
    high = np.maximum.reduceat(np.append(high, -1), bounds)[::2]
    closed = (low >= np.arange(size)) & (high < end)  # by place: nothing else leaves the subtree
    below = np.where(parent[dst] == src, dst, src)
    return np.asarray(~other & closed[place[below]])


def _walk(src: Ints, dst: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Walk depth-first through all nodes.

    Returns when each node is visited, its parent (``size`` for the first of a graph), and, by time
    of visit, when its subtree is left.
    """
    first = np.unique(_parts(src, dst, size), return_index=True)[1]
    roots = np.full(len(first), size)
    ends = (np.concatenate([src, roots]), np.concatenate([dst, first]))
    joined = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(size + 1, size + 1))
    order, parent = depth_first_order(joined, size, directed=True)
    order, parent = order[1:].astype(np.int64), parent[:size].astype(np.int64)
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    return place, parent, np.arange(size) + _subtree_sizes(parent, size)[order]


def _subtree_sizes(parent: Ints, size: int) -> Ints:
    """Count the nodes of every subtree: those nearer than 1, 2, 4, … steps below its top."""
    count = np.ones(size, dtype=np.int64)
    above = np.append(parent, size)  # ancestor that many steps up; ``size`` above the tops
    while (low := np.flatnonzero(above[:size] < size)).size:
        count = count + np.bincount(above[low], weights=count[low], minlength=size).astype(np.int64)
        above = above[above]
    return count


def cuttable(table: GraphTable) -> Bools:
    """Say of every edge whether it may be cut, ``[E]``.

    True for single bonds outside rings whose ends are no hydrogens.
    """
    src, dst = global_edges(table)
    heavy = table.dense("node", "node_feat")[:, ATOMIC_NUM] != HYDROGEN
    single = table.dense("edge", "edge_attr")[:, BOND_TYPE] == SINGLE
    return np.asarray(single & heavy[src] & heavy[dst] & acyclic(table))


def units(table: GraphTable) -> Ints:
    """Return the unit of every atom, ``[N]``, numbered over the whole table.

    A unit is what stays connected when all cuttable bonds are cut: a ring system, a group held by
    multiple bonds, or one atom.
    """
    return connected(table, ~cuttable(table))


def local_units(table: GraphTable) -> Ints:
    """Return the unit of every atom, ``[N]``, numbered from 0 in each molecule."""
    unit, owner = units(table), row_indices(table.node_ptr)
    first = np.full(len(table), np.iinfo(np.int64).max)
    np.minimum.at(first, owner, unit)
    return np.asarray(unit - first[owner], dtype=np.int64)


def scaffold_atoms(table: GraphTable) -> Bools:
    """Say which atoms belong to the Murcko scaffold, ``[N]``.

    Atoms with one neighbor fall off, again and again, until none is left: rings stay, and what
    links them. Atoms held to these by a multiple bond belong to it too.
    """
    src, dst = global_edges(table)
    inside = np.ones(table.total_nodes, dtype=bool)
    while True:
        both = inside[src] & inside[dst]
        degree = np.bincount(src[both], minlength=table.total_nodes)
        falls = inside & (degree < 2)
        if not falls.any():
            break
        inside &= ~falls
    order = table.dense("edge", "edge_attr")[:, BOND_TYPE]
    held = (order == DOUBLE) | (order == TRIPLE)
    more = inside.copy()
    more[dst[held & inside[src]]] = True
    return more


def connected(table: GraphTable, edges: Bools) -> Ints:
    """Return the part of every node, ``[N]``, when only the given edges ``[E]`` connect."""
    src, dst = global_edges(table)
    return _parts(src[edges], dst[edges], table.total_nodes)


def _parts(src: Ints, dst: Ints, size: int) -> Ints:
    matrix = csr_array((np.ones(len(src), dtype=np.int8), (src, dst)), shape=(size, size))
    _, label = connected_components(matrix, directed=False)
    return np.asarray(label, dtype=np.int64)


def round_to_units(table: GraphTable, keep: Bools) -> Bools:
    """Extend a mask of nodes ``[N]`` to all nodes of every unit it touches."""
    unit = units(table)
    touched = np.zeros(int(unit.max(initial=-1)) + 1, dtype=bool)
    touched[unit[keep]] = True
    return np.asarray(touched[unit])


def cut_bonds(table: GraphTable, keep: Bools) -> tuple[Ints, Bools]:
    """Return what a cut around the nodes in ``keep`` takes from them.

    First, the hydrogens that replace the lost bonds of every atom of the table, ``[N]``; second,
    which graphs, ``[G]``, lose only bonds that hydrogens can replace: single, double and triple.
    """
    src, dst = global_edges(table)
    lost = keep[src] & ~keep[dst]
    order = table.dense("edge", "edge_attr")[lost, BOND_TYPE].astype(np.int64)
    whole = (order >= SINGLE) & (order <= TRIPLE)
    hydrogens = np.bincount(
        src[lost], weights=np.where(whole, order, 0), minlength=table.total_nodes
    )
    clean = np.ones(len(table), dtype=bool)
    clean[row_indices(table.edge_ptr)[lost][~whole]] = False
    return hydrogens.astype(np.int64), clean


def free_valence(table: GraphTable) -> Ints:
    """Return how many more single bonds every atom can take, ``[N]``: its hydrogens.

    For molecules that stand alone: source graphs, and pieces after ``stand_alone``.
    """
    return table.dense("node", "node_feat")[:, NUM_HS].astype(np.int64)
