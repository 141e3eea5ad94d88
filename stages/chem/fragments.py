"""Fragments of molecules: cuttable bonds, rigid units, scaffolds and free valences.

Tables must have the features of ``features.py``; RDKit is not used. A cuttable bond is a single
bond outside rings. A hydrogen replaces it at each end, so that a fragment is a valid molecule, and
a hydrogen marks an atom to which a bond can be added again.
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


def acyclic_edges(table: GraphTable) -> Bools:
    """Return whether every edge is outside all cycles, ``[E]``; graphs must be simple.

    Tarjan's bridge-finding algorithm on a depth-first search of the whole table: an edge to a
    subtree is on no cycle if no other edge leaves the subtree.
    """
    src, dst = global_edges(table)
    size = table.total_nodes
    if not size:
        return np.zeros(0, dtype=bool)
    visit, parent, end = _depth_first_search(src, dst, size)
    low = np.arange(size)
    high = low.copy()
    other = (parent[src] != dst) & (parent[dst] != src)
    np.minimum.at(low, visit[src[other]], visit[dst[other]])
    np.maximum.at(high, visit[src[other]], visit[dst[other]])
    bounds = np.stack([np.arange(size), end], axis=1).reshape(-1)
    low = np.minimum.reduceat(np.append(low, size), bounds)[::2]
    high = np.maximum.reduceat(np.append(high, -1), bounds)[::2]
    closed = (low >= np.arange(size)) & (
        high < end
    )  # by visit time: no other edge leaves the subtree
    below = np.where(parent[dst] == src, dst, src)
    return np.asarray(~other & closed[visit[below]])


def _depth_first_search(src: Ints, dst: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Run a depth-first search over all nodes.

    Returns the visit time of each node, its parent (``size`` for roots), and, by visit time, the
    end of its subtree.
    """
    first = np.unique(_component_labels(src, dst, size), return_index=True)[1]
    roots = np.full(len(first), size)
    ends = (np.concatenate([src, roots]), np.concatenate([dst, first]))
    joined = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(size + 1, size + 1))
    order, parent = depth_first_order(joined, size, directed=True)
    order, parent = order[1:].astype(np.int64), parent[:size].astype(np.int64)
    visit = np.empty(size, dtype=np.int64)
    visit[order] = np.arange(size)
    return visit, parent, np.arange(size) + _subtree_sizes(parent, size)[order]


def _subtree_sizes(parent: Ints, size: int) -> Ints:
    """Return the size of every subtree by pointer doubling over 1, 2, 4, … levels."""
    count = np.ones(size, dtype=np.int64)
    above = np.append(parent, size)  # ancestor that many levels up; ``size`` above the roots
    while (low := np.flatnonzero(above[:size] < size)).size:
        count = count + np.bincount(above[low], weights=count[low], minlength=size).astype(np.int64)
        above = above[above]
    return count


def cuttable_bonds(table: GraphTable) -> Bools:
    """Return whether every edge may be cut, ``[E]``: acyclic single bonds of heavy atoms."""
    src, dst = global_edges(table)
    heavy = table.dense("node", "node_feat")[:, ATOMIC_NUM] != HYDROGEN
    single = table.dense("edge", "edge_attr")[:, BOND_TYPE] == SINGLE
    return np.asarray(single & heavy[src] & heavy[dst] & acyclic_edges(table))


def rigid_units(table: GraphTable) -> Ints:
    """Return the rigid unit of every atom, ``[N]``, numbered over the whole table.

    A unit stays connected when all cuttable bonds are cut: a ring system, a group joined by
    multiple bonds, or one atom.
    """
    return connected_parts(table, ~cuttable_bonds(table))


def local_units(table: GraphTable) -> Ints:
    """Return the unit of every atom, ``[N]``, numbered from 0 in each molecule."""
    unit, owner = rigid_units(table), row_indices(table.node_ptr)
    first = np.full(len(table), np.iinfo(np.int64).max)
    np.minimum.at(first, owner, unit)
    return np.asarray(unit - first[owner], dtype=np.int64)


def scaffold_atoms(table: GraphTable) -> Bools:
    """Return which atoms belong to the Murcko scaffold, ``[N]``.

    Atoms with one neighbor are removed repeatedly, until rings and their linkers remain. Atoms
    attached to these by a multiple bond belong to the scaffold too.
    """
    src, dst = global_edges(table)
    inside = np.ones(table.total_nodes, dtype=bool)
    while True:
        both = inside[src] & inside[dst]
        degree = np.bincount(src[both], minlength=table.total_nodes)
        removed = inside & (degree < 2)
        if not removed.any():
            break
        inside &= ~removed
    order = table.dense("edge", "edge_attr")[:, BOND_TYPE]
    multiple = (order == DOUBLE) | (order == TRIPLE)
    scaffold = inside.copy()
    scaffold[dst[multiple & inside[src]]] = True
    return scaffold


def connected_parts(table: GraphTable, edges: Bools) -> Ints:
    """Return the connected component of every node, ``[N]``, using only the edges in ``edges``."""
    src, dst = global_edges(table)
    return _component_labels(src[edges], dst[edges], table.total_nodes)


def _component_labels(src: Ints, dst: Ints, size: int) -> Ints:
    matrix = csr_array((np.ones(len(src), dtype=np.int8), (src, dst)), shape=(size, size))
    _, label = connected_components(matrix, directed=False)
    return np.asarray(label, dtype=np.int64)


def round_to_units(table: GraphTable, keep: Bools) -> Bools:
    """Extend a mask of nodes ``[N]`` to all nodes of every unit it touches."""
    unit = rigid_units(table)
    touched = np.zeros(int(unit.max(initial=-1)) + 1, dtype=bool)
    touched[unit[keep]] = True
    return np.asarray(touched[unit])


def cut_bonds(table: GraphTable, keep: Bools) -> tuple[Ints, Bools]:
    """Return the effect of a cut around the nodes in ``keep``.

    First, the number of hydrogens that replace the cut bonds of every atom, ``[N]``; second,
    whether each graph, ``[G]``, loses only bonds that hydrogens can replace: single, double and
    triple.
    """
    src, dst = global_edges(table)
    cut = keep[src] & ~keep[dst]
    order = table.dense("edge", "edge_attr")[cut, BOND_TYPE].astype(np.int64)
    replaceable = (order >= SINGLE) & (order <= TRIPLE)
    hydrogens = np.bincount(
        src[cut], weights=np.where(replaceable, order, 0), minlength=table.total_nodes
    )
    clean = np.ones(len(table), dtype=bool)
    clean[row_indices(table.edge_ptr)[cut][~replaceable]] = False
    return hydrogens.astype(np.int64), clean


def free_valence(table: GraphTable) -> Ints:
    """Return the number of single bonds that can be added to every atom, ``[N]``: its hydrogens.

    Valid for complete molecules: source graphs, and the results of ``cut_out_molecules``.
    """
    return table.dense("node", "node_feat")[:, NUM_HS].astype(np.int64)
