"""Build unsanitized RDKit molecules from graph tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
from rdkit import Chem

from gsx.ragged import Ints, pointers
from gsx.stages.chem.features import (
    AROMATIC,
    ATOM_FEATURES,
    ATOMIC_NUM,
    BOND_TYPE,
    CHARGE,
    DATIVE,
    LOWEST_CHARGE,
    NUM_HS,
    RADICALS,
)
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

NON_METALS = (0, 1, 2, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 33, 34, 35, 36, 52, 53, 54, 85, 86)
"""Atomic numbers of dummy atoms, non-metals and metalloids, which give electrons to metals."""
_KEY = (ATOMIC_NUM, CHARGE, NUM_HS, RADICALS, AROMATIC)
"""Features that define an atom; the others follow from its neighborhood."""
_KEY_SHAPE = tuple(len(list(ATOM_FEATURES.values())[column]) for column in _KEY)


@dataclass(frozen=True, slots=True, eq=False)
class Bonds:
    """Undirected bonds of a table, in the order in which RDKit receives them."""

    ptr: Ints
    """``[G + 1]``"""
    edge: Ints
    """``[B]`` index of the edge from the lower to the higher atom."""
    back: Ints
    """``[B]`` index of the reverse edge."""


def undirected_bonds(table: GraphTable) -> Bonds:
    """Return the bonds of all molecules, sorted by lower and higher atom."""
    src, dst = global_edges(table)
    forth, back = np.lexsort((dst, src)), np.lexsort((src, dst))
    upward = src[forth] < dst[forth]
    edge, back = forth[upward], back[upward]
    return Bonds(pointers(np.bincount(table.edge_graph()[edge], minlength=len(table))), edge, back)


def build_molecules(
    table: GraphTable, node_feat: Ints, bonds: Bonds, rejected: Container[int]
) -> Iterator[tuple[int, Chem.RWMol]]:
    """Yield index and molecule of every graph that is not rejected, with explicit hydrogens.

    ``node_feat`` replaces the column of that name.
    """
    key = np.ravel_multi_index(
        tuple(node_feat[:, column] for column in _KEY), _KEY_SHAPE, mode="clip"
    )
    kinds, kind = np.unique(key, return_inverse=True)
    atoms = [_atom(*map(int, np.unravel_index(code, _KEY_SHAPE))) for code in kinds]
    atom = [atoms[number] for number in kind.tolist()]
    begin, end = _orient(table, node_feat, bonds)
    bond_types = Chem.BondType.values
    codes = table.dense("edge", "edge_attr")[bonds.edge, BOND_TYPE].tolist()
    types = [bond_types[code] for code in codes]
    consume = deque[object](maxlen=0).extend  # iterates in C; half of the time is spent here
    node_ptr, bond_ptr = table.node_ptr.tolist(), bonds.ptr.tolist()
    for graph in range(len(table)):
        if graph in rejected:
            continue
        molecule = Chem.RWMol()
        run = slice(bond_ptr[graph], bond_ptr[graph + 1])
        consume(map(molecule.AddAtom, atom[node_ptr[graph] : node_ptr[graph + 1]]))
        consume(map(molecule.AddBond, begin[run], end[run], types[run]))
        yield graph, molecule


def _orient(table: GraphTable, node_feat: Ints, bonds: Bonds) -> tuple[list[int], list[int]]:
    """Return the first and second atom of every bond, as local numbers.

    A dative bond leads from the donor to the metal, and a table does not store its direction.
    """
    src, dst = (
        table.dense("edge", "edge_src")[bonds.edge],
        table.dense("edge", "edge_dst")[bonds.edge],
    )
    dative = np.flatnonzero(table.dense("edge", "edge_attr")[bonds.edge, BOND_TYPE] == DATIVE)
    if len(dative):
        start = table.node_ptr[np.searchsorted(bonds.ptr, dative, side="right") - 1]
        left, right = (
            np.isin(node_feat[start + ends[dative], ATOMIC_NUM], NON_METALS) for ends in (src, dst)
        )
        turned = dative[~left & right]
        src, dst = src.copy(), dst.copy()
        src[turned], dst[turned] = dst[turned], src[turned]
    return src.tolist(), dst.tolist()


def _atom(atomic_num: int, charge: int, num_hs: int, radicals: int, aromatic: int) -> Chem.Atom:
    atom = Chem.Atom(atomic_num)
    atom.SetFormalCharge(charge + LOWEST_CHARGE)
    atom.SetNumExplicitHs(num_hs)
    atom.SetNoImplicit(True)  # noqa: FBT003
    atom.SetNumRadicalElectrons(radicals)
    atom.SetIsAromatic(bool(aromatic))
    return atom
