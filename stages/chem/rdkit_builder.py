"""RDKit molecules built from arrays, not yet sanitized."""

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
    LOWEST_CHARGE,
    NUM_HS,
    RADICALS,
)
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

_KEY = (ATOMIC_NUM, CHARGE, NUM_HS, RADICALS, AROMATIC)
"""Features that say what an atom is; the others follow from its surroundings."""
_KEY_SHAPE = tuple(len(list(ATOM_FEATURES.values())[place]) for place in _KEY)


@dataclass(frozen=True, slots=True, eq=False)
class Bonds:
    """The edges of a table as bonds, in the order in which they are given to RDKit."""

    ptr: Ints
    """``[G + 1]``"""
    edge: Ints
    """``[B]`` position of the edge from the lower to the higher atom."""
    back: Ints
    """``[B]`` position of the edge that leads back."""


def bonds_of(table: GraphTable) -> Bonds:
    """Return the bonds of all molecules, in the order of their lower and higher atoms."""
    src, dst = global_edges(table)
    forth, back = np.lexsort((dst, src)), np.lexsort((src, dst))
    upward = src[forth] < dst[forth]
    edge, back = forth[upward], back[upward]
    return Bonds(pointers(np.bincount(table.edge_graph()[edge], minlength=len(table))), edge, back)


def molecules_of(
    table: GraphTable, node_feat: Ints, bonds: Bonds, refused: Container[int]
) -> Iterator[tuple[int, Chem.RWMol]]:
    """Yield every graph that is not refused, as a molecule whose atoms count their hydrogens.

    ``node_feat`` stands for the column of that name.
    """
    key = np.ravel_multi_index(
        tuple(node_feat[:, place] for place in _KEY), _KEY_SHAPE, mode="clip"
    )
    kinds, kind = np.unique(key, return_inverse=True)
    atoms = [_atom(*map(int, np.unravel_index(code, _KEY_SHAPE))) for code in kinds]
    atom = [atoms[number] for number in kind.tolist()]
    begin = table.dense("edge", "edge_src")[bonds.edge].tolist()
    end = table.dense("edge", "edge_dst")[bonds.edge].tolist()
    words = Chem.BondType.values
    codes = table.dense("edge", "edge_attr")[bonds.edge, BOND_TYPE].tolist()
    types = [words[code] for code in codes]
    consume = deque[object](maxlen=0).extend  # a loop in C: half of the time is spent here
    node_ptr, bond_ptr = table.node_ptr.tolist(), bonds.ptr.tolist()
    for graph in range(len(table)):
        if graph in refused:
            continue
        molecule = Chem.RWMol()
        run = slice(bond_ptr[graph], bond_ptr[graph + 1])
        consume(map(molecule.AddAtom, atom[node_ptr[graph] : node_ptr[graph + 1]]))
        consume(map(molecule.AddBond, begin[run], end[run], types[run]))
        yield graph, molecule


def _atom(atomic_num: int, charge: int, num_hs: int, radicals: int, aromatic: int) -> Chem.Atom:
    atom = Chem.Atom(atomic_num)
    atom.SetFormalCharge(charge + LOWEST_CHARGE)
    atom.SetNumExplicitHs(num_hs)
    atom.SetNoImplicit(True)  # noqa: FBT003
    atom.SetNumRadicalElectrons(radicals)
    atom.SetIsAromatic(bool(aromatic))
    return atom
