"""Molecules rebuilt from graphs: pieces that stand alone, and molecules spliced from them.

An atom is rebuilt with exactly the hydrogens its features count, so RDKit guesses nothing: it only
agrees or says why not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rdkit import Chem, rdBase

from gsx.ragged import Array, Ints, ranges
from gsx.stages.chem.features import (
    ATOM_FEATURES,
    BOND_TYPE,
    CHIRALITY,
    CONJUGATED,
    DOUBLE,
    FEATURE_DTYPE,
    HYBRIDIZATION,
    NUM_HS,
    SINGLE,
    SP3,
    STEREO,
    TRIPLE,
)
from gsx.stages.chem.fragments import connected, cut_bonds
from gsx.stages.chem.rdkit_builder import Bonds, bonds_of, molecules_of
from gsx.stages.chem.smiles_reader import HYBRIDIZATION_CODES, NO_WORD, UNKNOWN, FeatureRows
from gsx.stages.graphs.subgraphs import Bools, global_edges, induced_subgraphs
from gsx.table import GraphTable

_FLAGS = Chem.SanitizeFlags
_ALL = int(_FLAGS.SANITIZE_ALL)
LOCAL = int(
    _FLAGS.SANITIZE_PROPERTIES | _FLAGS.SANITIZE_SETCONJUGATION | _FLAGS.SANITIZE_SETHYBRIDIZATION
)
"""What a single bond outside rings, put where two hydrogens were, can change or break.

It leaves charge, total degree and total valence of every atom, and all rings, as they were; so
clean-up, Kekulé structures, radicals and aromaticity are those of the pieces.
"""
_RINGS = int(_FLAGS.SANITIZE_SYMMRINGS)
"""What writing SMILES needs besides."""


def _plain_smiles() -> Chem.SmilesWriteParams:
    params = Chem.SmilesWriteParams()
    params.doIsomericSmiles = False  # type: ignore[assignment]
    params.cleanStereo = False  # type: ignore[assignment]
    return params


_WRITE = _plain_smiles()


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What RDKit says of rebuilt molecules."""

    ok: Bools
    """``[G]`` whether the molecule passed."""
    reasons: tuple[str, ...]
    """``[G]`` why it did not; empty where it did."""
    smiles: tuple[str, ...]
    """``[G]`` canonical SMILES without stereo; empty where it did not pass."""
    node_feat: Array
    """``[N, 9]`` features of the atoms now; where the molecule did not pass, as they were."""
    edge_attr: Array
    """``[E, 3]`` features of the bonds now; where the molecule did not pass, as they were."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces cut out of molecules, standing alone with hydrogens in place of the cut bonds."""

    table: GraphTable
    """One row per molecule, with the features that the atoms have in the piece."""
    numbers: Ints
    """``[N]`` local number of every atom in the molecule it was cut from."""
    ok: Bools
    """``[G]`` whether the piece is a molecule of its own."""
    reasons: tuple[str, ...]
    smiles: tuple[str, ...]


def stand_alone(table: GraphTable, keep: Bools) -> Pieces:
    """Cut the atoms in ``keep`` ``[N]`` out of every molecule and make each piece a molecule."""
    hydrogens, clean = cut_bonds(table, keep)
    part, numbers = induced_subgraphs(table, keep)
    node_feat = part.dense("node", "node_feat").astype(np.int64)
    node_feat[:, NUM_HS] += hydrogens[keep]
    refused = {
        int(graph): "a bond is cut that is no whole bond" for graph in np.flatnonzero(~clean)
    }
    crowded = np.flatnonzero(node_feat[:, NUM_HS] >= len(ATOM_FEATURES["num_hs"]))
    refused |= dict.fromkeys(_graphs(part, crowded), "an atom would need too many hydrogens")
    refused |= {int(graph): "nothing is kept" for graph in np.flatnonzero(part.num_nodes == 0)}
    everything = np.ones(len(part), dtype=bool)
    nothing = np.zeros(part.total_edges, dtype=bool)
    checked = _check(part, node_feat, nothing, everything, refused, smiles=True)
    return Pieces(
        table=part.with_columns(
            node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
        ),
        numbers=numbers,
        ok=checked.ok,
        reasons=checked.reasons,
        smiles=checked.smiles,
    )


def check_spliced(
    table: GraphTable, bridges: Bools, *, smiles: bool = True, thorough: bool = False
) -> Checked:
    """Check molecules spliced from others and return the features they have now.

    ``table`` holds molecules that stand alone, each with its own features, joined by the edges in
    ``bridges`` ``[E]`` (both directions marked); a bridge of order n takes n hydrogens of each end.
    Bridges that are single bonds outside rings cannot disturb the rest of the molecule, which is
    then checked and read around the bridges only; ``thorough`` does all of it for every molecule.
    Without ``smiles`` none are written, which saves most of the time.
    """
    src, _ = global_edges(table)
    order = table.dense("edge", "edge_attr")[:, BOND_TYPE].astype(np.int64)
    owner = table.edge_graph()
    node_feat = table.dense("node", "node_feat").astype(np.int64)
    taken = np.bincount(src[bridges], weights=order[bridges], minlength=table.total_nodes)
    node_feat[:, NUM_HS] -= taken.astype(np.int64)
    short = np.flatnonzero(node_feat[:, NUM_HS] < 0)
    refused = no_hydrogens(table, short, node_feat[short, NUM_HS], taken[short].astype(np.int64))
    refused |= {
        int(graph): "a bridge is no single, double or triple bond"
        for graph in np.unique(owner[bridges & ((order < SINGLE) | (order > TRIPLE))])
    }
    whole = np.ones(len(table), dtype=bool)
    if not thorough:
        whole = _closes_ring(table, bridges)
        whole[owner[bridges & (order != SINGLE)]] = True
    return _check(table, node_feat, bridges, whole, refused, smiles=smiles)


def no_hydrogens(table: GraphTable, atom: Ints, left: Ints, taken: Ints) -> dict[int, str]:
    """Say which molecules have an atom with too few hydrogens for its bridges, and which atom.

    ``atom`` are such atoms in rising order; ``left`` hydrogens, below 0, after so many ``taken``.
    """
    refused = {}
    for node, rest, order in zip(*(x[::-1].tolist() for x in (atom, left, taken)), strict=True):
        graph = int(np.searchsorted(table.node_ptr, node, side="right")) - 1
        refused[graph] = (
            f"atom {node - int(table.node_ptr[graph])} has {rest + order} hydrogens "
            f"for bridges of order {order}"
        )
    return refused


def _closes_ring(table: GraphTable, bridges: Bools) -> Bools:
    """Say of every graph whether a bridge lies on a cycle, ``[G]``.

    Bridges lie on none when each of them lowers the number of connected parts by one.
    """
    parts = _count_parts(table, ~bridges) - _count_parts(table, np.ones_like(bridges))
    number = np.bincount(table.edge_graph()[bridges], minlength=len(table)) // 2
    return np.asarray(parts != number)


def _count_parts(table: GraphTable, edges: Bools) -> Ints:
    """Count the connected parts of every graph when only ``edges`` connect, ``[G]``."""
    first = np.unique(connected(table, edges), return_index=True)[1]
    owner = np.searchsorted(table.node_ptr, first, side="right") - 1
    return np.bincount(owner, minlength=len(table))


def _check(
    table: GraphTable,
    node_feat: Ints,
    bridges: Bools,
    whole: Bools,
    refused: dict[int, str],
    *,
    smiles: bool,
) -> Checked:
    """Rebuild, sanitize and read every molecule that is not refused already.

    ``node_feat`` counts the hydrogens left. Molecules in ``whole`` ``[G]`` are sanitized and read
    in full, the others around their bridges.
    """
    bonds = bonds_of(table)
    around = _around(table, bonds, bridges)
    local = LOCAL | _RINGS if smiles else LOCAL
    texts = [""] * len(table)
    full, full_graphs = FeatureRows(), []
    part, part_graphs = _PartRows(), []
    with rdBase.BlockLogs():
        for graph, molecule in molecules_of(table, node_feat, bonds, refused):
            try:
                Chem.SanitizeMol(molecule, _ALL if whole[graph] else local)
            except ValueError as error:
                refused[graph] = str(error).strip()
                continue
            if smiles:
                texts[graph] = Chem.MolToSmiles(molecule, _WRITE)
            if whole[graph]:
                full.read(molecule)
                full_graphs.append(graph)
            else:
                part.read(molecule, *around.of(graph))
                part_graphs.append(graph)
    atoms, attributes = _written(table, node_feat, bonds, full, np.array(full_graphs, np.int64))
    _write_part(atoms, attributes, bonds, around, part, np.array(part_graphs, np.int64))
    strange = np.flatnonzero(atoms[:, HYBRIDIZATION] == UNKNOWN)
    refused |= dict.fromkeys(_graphs(table, strange), NO_WORD)
    refused |= {full_graphs[number]: NO_WORD for number in full.strange().tolist()}
    ok = np.ones(len(table), dtype=bool)
    ok[list(refused)] = False
    _restore(table, atoms, attributes, ~ok)
    return Checked(
        ok=ok,
        reasons=tuple(refused.get(graph, "") for graph in range(len(table))),
        smiles=tuple(text if kept else "" for text, kept in zip(texts, ok, strict=True)),
        node_feat=atoms.astype(FEATURE_DTYPE),
        edge_attr=attributes.astype(FEATURE_DTYPE),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """What single bonds outside rings can change where they are put.

    A bond can become conjugated: the new one, and multiple bonds at its ends. With it, atoms of
    these bonds can go from SP3 to SP2. All else follows from degrees and valences, which stay.
    """

    atom: Ints
    """``[A]`` over the whole table."""
    bond: Ints
    """``[C]`` numbers of bonds over the whole table."""
    atom_ptr: list[int]
    bond_ptr: list[int]
    local_atom: list[int]
    local_bond: list[int]

    def of(self, graph: int) -> tuple[list[int], list[int]]:
        """Return local numbers of the atoms and of the bonds of one graph."""
        return (
            self.local_atom[self.atom_ptr[graph] : self.atom_ptr[graph + 1]],
            self.local_bond[self.bond_ptr[graph] : self.bond_ptr[graph + 1]],
        )


def _around(table: GraphTable, bonds: Bonds, bridges: Bools) -> _Around:
    src, dst = global_edges(table)
    end = np.zeros(table.total_nodes, dtype=bool)
    end[src[bridges]] = True
    left, right = src[bonds.edge], dst[bonds.edge]
    order = table.dense("edge", "edge_attr")[bonds.edge, BOND_TYPE]
    multiple = (order == DOUBLE) | (order == TRIPLE)
    bond = np.flatnonzero(bridges[bonds.edge] | (multiple & (end[left] | end[right])))
    atom = np.unique(np.concatenate([left[bond], right[bond]]))
    atom = atom[table.dense("node", "node_feat")[atom, HYBRIDIZATION] == SP3]
    atom_ptr = np.searchsorted(atom, table.node_ptr)
    bond_ptr = np.searchsorted(bond, bonds.ptr)
    return _Around(
        atom=atom,
        bond=bond,
        atom_ptr=atom_ptr.tolist(),
        bond_ptr=bond_ptr.tolist(),
        local_atom=(atom - np.repeat(table.node_ptr[:-1], np.diff(atom_ptr))).tolist(),
        local_bond=(bond - np.repeat(bonds.ptr[:-1], np.diff(bond_ptr))).tolist(),
    )


class _PartRows:
    """What is read of molecules of which only a part can have changed."""

    def __init__(self) -> None:
        self.hybridizations: list[int] = []
        self.conjugated: list[bool] = []

    def read(self, molecule: Chem.Mol, atoms: list[int], bonds: list[int]) -> None:
        atom_of, bond_of = molecule.GetAtomWithIdx, molecule.GetBondWithIdx
        self.hybridizations += [atom_of(atom).GetHybridization() for atom in atoms]
        self.conjugated += [bond_of(bond).GetIsConjugated() for bond in bonds]


def _written(
    table: GraphTable, node_feat: Ints, bonds: Bonds, full: FeatureRows, graphs: Ints
) -> tuple[Ints, Ints]:
    """Return the features of all atoms and edges, without stereo, those read in full replaced."""
    atoms, attributes = node_feat.copy(), table.dense("edge", "edge_attr").astype(np.int64)
    atoms[:, CHIRALITY], attributes[:, STEREO] = 0, 0
    atoms[ranges(table.node_ptr[graphs], table.num_nodes[graphs])] = full.atom_codes()
    bond = ranges(bonds.ptr[graphs], np.diff(bonds.ptr)[graphs])
    for edge in (bonds.edge[bond], bonds.back[bond]):
        attributes[edge] = full.bond_codes()[:, 2:]
    return atoms, attributes


def _write_part(
    atoms: Ints, attributes: Ints, bonds: Bonds, around: _Around, part: _PartRows, graphs: Ints
) -> None:
    """Replace what was read around the bridges of some graphs."""
    first, last = np.array(around.atom_ptr)[graphs], np.array(around.atom_ptr)[graphs + 1]
    codes = HYBRIDIZATION_CODES[np.array(part.hybridizations, dtype=np.int64)]
    atoms[around.atom[ranges(first, last - first)], HYBRIDIZATION] = codes
    first, last = np.array(around.bond_ptr)[graphs], np.array(around.bond_ptr)[graphs + 1]
    bond = around.bond[ranges(first, last - first)]
    for edge in (bonds.edge[bond], bonds.back[bond]):
        attributes[edge, CONJUGATED] = part.conjugated


def _graphs(table: GraphTable, nodes: Ints) -> list[int]:
    """Return the graphs that hold the given nodes."""
    graphs = np.unique(np.searchsorted(table.node_ptr, nodes, side="right") - 1)
    return [int(graph) for graph in graphs]


def _restore(table: GraphTable, atoms: Ints, attributes: Ints, failed: Bools) -> None:
    """Give the graphs that failed the features they came with."""
    of_node, of_edge = np.repeat(failed, table.num_nodes), np.repeat(failed, table.num_edges)
    atoms[of_node] = table.dense("node", "node_feat")[of_node]
    attributes[of_edge] = table.dense("edge", "edge_attr")[of_edge]


def write_smiles(table: GraphTable) -> tuple[list[str], Ints]:
    """Write molecules that stand alone, and say which node every written atom is, ``[N]``."""
    texts, order = [], []
    node_feat = table.dense("node", "node_feat").astype(np.int64)
    with rdBase.BlockLogs():
        for _, molecule in molecules_of(table, node_feat, bonds_of(table), {}):
            Chem.SanitizeMol(molecule, LOCAL | _RINGS)
            texts.append(Chem.MolToSmiles(molecule, _WRITE))
            found = molecule.GetPropsAsDict(includePrivate=True, includeComputed=True)
            order.append(np.array(list(found["_smilesAtomOutputOrder"]), dtype=np.int64))
    return texts, np.concatenate([np.zeros(0, dtype=np.int64), *order])
