"""Check molecules by rebuilding them in RDKit from their graphs: cut-out and spliced molecules.

Every atom is rebuilt with exactly the hydrogens that its features count, so that RDKit infers
nothing: sanitization accepts the molecule or gives a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rdkit import Chem, rdBase

from gsx.ragged import Array, Ints, ranges
from gsx.stages.chem.agreement import disagreements
from gsx.stages.chem.canonical_smiles import AtomOrders
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
from gsx.stages.chem.fragments import connected_parts, cut_bonds
from gsx.stages.chem.rdkit_builder import Bonds, build_molecules, undirected_bonds
from gsx.stages.chem.smiles_reader import (
    HYBRIDIZATION_CODES,
    UNKNOWN_CODE,
    UNSUPPORTED,
    FeatureRows,
)
from gsx.stages.graphs.subgraphs import Bools, global_edges, induced_subgraphs
from gsx.table import GraphTable

_FLAGS = Chem.SanitizeFlags
_ALL = int(_FLAGS.SANITIZE_ALL)
LOCAL_SANITIZATION = int(
    _FLAGS.SANITIZE_PROPERTIES | _FLAGS.SANITIZE_SETCONJUGATION | _FLAGS.SANITIZE_SETHYBRIDIZATION
)
"""Sanitization steps that a single bond outside rings, in place of two hydrogens, can affect.

Such a bond keeps charge, total degree and total valence of every atom, and all rings. Clean-up,
Kekulé structures, radicals and aromaticity are therefore those of the components.
"""
RINGS = int(_FLAGS.SANITIZE_SYMMRINGS)
"""Additional step that writing SMILES needs."""


@dataclass(frozen=True, slots=True, eq=False)
class MoleculeCheck:
    """Results of checking molecules with RDKit."""

    ok: Bools
    """``[G]`` whether the molecule passed."""
    reasons: tuple[str, ...]
    """``[G]`` reason of a failure; empty if the molecule passed."""
    smiles: tuple[str, ...]
    """``[G]`` canonical SMILES without stereo; empty after a failure."""
    order: Ints
    """``[N]`` local number of the node of every atom, in the order of the SMILES; the order of the
    nodes after a failure or without SMILES."""
    mismatched: Bools
    """``[G]`` whether the SMILES does not describe the graph, which is a failure too."""
    node_feat: Array
    """``[N, 9]`` recomputed atom features; unchanged after a failure."""
    edge_attr: Array
    """``[E, 3]`` recomputed bond features; unchanged after a failure."""


@dataclass(frozen=True, slots=True, eq=False)
class CutMolecules:
    """Fragments cut out of molecules, with hydrogens in place of the cut bonds."""

    table: GraphTable
    """One row per molecule, with the features that the atoms have in the fragment."""
    numbers: Ints
    """``[N]`` local id of every atom in its source molecule."""
    ok: Bools
    """``[G]`` whether the fragment is a valid molecule."""
    reasons: tuple[str, ...]
    smiles: tuple[str, ...]


def cut_out_molecules(table: GraphTable, keep: Bools, *, smiles: bool = True) -> CutMolecules:
    """Cut the atoms in ``keep`` ``[N]`` out of every molecule, as valid molecules.

    ``smiles=False`` skips writing SMILES.
    """
    hydrogens, clean = cut_bonds(table, keep)
    fragments, numbers = induced_subgraphs(table, keep)
    node_feat = fragments.dense("node", "node_feat").astype(np.int64)
    node_feat[:, NUM_HS] += hydrogens[keep]
    rejected = {
        int(graph): "a cut bond is not a single, double or triple bond"
        for graph in np.flatnonzero(~clean)
    }
    crowded = np.flatnonzero(node_feat[:, NUM_HS] >= len(ATOM_FEATURES["num_hs"]))
    rejected |= dict.fromkeys(
        _graphs(fragments, crowded), "an atom has too many hydrogens after the cut"
    )
    rejected |= {
        int(graph): "no atom is kept" for graph in np.flatnonzero(fragments.num_nodes == 0)
    }
    all_graphs = np.ones(len(fragments), dtype=bool)
    no_bridges = np.zeros(fragments.total_edges, dtype=bool)
    checked = _check(fragments, node_feat, no_bridges, all_graphs, rejected, smiles=smiles)
    return CutMolecules(
        table=fragments.with_columns(
            node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
        ),
        numbers=numbers,
        ok=checked.ok,
        reasons=checked.reasons,
        smiles=checked.smiles,
    )


def check_by_graph(
    table: GraphTable, bridges: Bools, *, smiles: bool = True, thorough: bool = False
) -> MoleculeCheck:
    """Check spliced molecules and return their recomputed features.

    ``table`` holds complete molecules, each with its own features, joined by the edges in
    ``bridges`` ``[E]`` (both directions marked). A bridge of order n replaces n hydrogens at each
    end. Bridges that are single bonds outside rings affect their neighborhood only, so only that is
    sanitized and read; ``thorough`` sanitizes every molecule completely. ``smiles=False`` skips
    writing SMILES, which takes most of the time.
    """
    src, _ = global_edges(table)
    order = table.dense("edge", "edge_attr")[:, BOND_TYPE].astype(np.int64)
    owner = table.edge_graph()
    node_feat = table.dense("node", "node_feat").astype(np.int64)
    taken = np.bincount(src[bridges], weights=order[bridges], minlength=table.total_nodes)
    node_feat[:, NUM_HS] -= taken.astype(np.int64)
    short = np.flatnonzero(node_feat[:, NUM_HS] < 0)
    rejected = missing_hydrogens(
        table, short, node_feat[short, NUM_HS], taken[short].astype(np.int64)
    )
    rejected |= {
        int(graph): "a bridge is not a single, double or triple bond"
        for graph in np.unique(owner[bridges & ((order < SINGLE) | (order > TRIPLE))])
    }
    whole = np.ones(len(table), dtype=bool)
    if not thorough:
        whole = _closes_ring(table, bridges)
        whole[owner[bridges & (order != SINGLE)]] = True
    return _check(table, node_feat, bridges, whole, rejected, smiles=smiles)


def missing_hydrogens(table: GraphTable, atom: Ints, left: Ints, taken: Ints) -> dict[int, str]:
    """Return molecule → reason for atoms with too few hydrogens for their bridges.

    ``atom`` are such atoms in increasing order; ``left`` is the negative number of hydrogens left
    after ``taken`` were replaced.
    """
    rejected = {}
    for node, remaining, order in zip(
        *(x[::-1].tolist() for x in (atom, left, taken)), strict=True
    ):
        graph = int(np.searchsorted(table.node_ptr, node, side="right")) - 1
        rejected[graph] = (
            f"atom {node - int(table.node_ptr[graph])} has {remaining + order} hydrogens "
            f"for bridges of order {order}"
        )
    return rejected


def _closes_ring(table: GraphTable, bridges: Bools) -> Bools:
    """Return whether a bridge of each graph is on a cycle, ``[G]``.

    No bridge is on a cycle if every bridge reduces the number of connected components by one.
    """
    parts = _count_components(table, ~bridges) - _count_components(table, np.ones_like(bridges))
    number = np.bincount(table.edge_graph()[bridges], minlength=len(table)) // 2
    return np.asarray(parts != number)


def _count_components(table: GraphTable, edges: Bools) -> Ints:
    """Count the connected components of every graph, using only ``edges``, ``[G]``."""
    first = np.unique(connected_parts(table, edges), return_index=True)[1]
    owner = np.searchsorted(table.node_ptr, first, side="right") - 1
    return np.bincount(owner, minlength=len(table))


def _check(
    table: GraphTable,
    node_feat: Ints,
    bridges: Bools,
    whole: Bools,
    rejected: dict[int, str],
    *,
    smiles: bool,
) -> MoleculeCheck:
    """Rebuild, sanitize and read every molecule that is not rejected yet.

    ``node_feat`` counts the remaining hydrogens. Molecules in ``whole`` ``[G]`` are sanitized and
    read completely, the others only around their bridges.
    """
    bonds = undirected_bonds(table)
    region = _local_region(table, bonds, bridges)
    local_operations = LOCAL_SANITIZATION | RINGS if smiles else LOCAL_SANITIZATION
    texts = [""] * len(table)
    orders = AtomOrders(table)
    full_features, full_graphs = FeatureRows(), []
    local_features, local_graphs = _LocalFeatures(), []
    with rdBase.BlockLogs():
        for graph, molecule in build_molecules(table, node_feat, bonds, rejected):
            try:
                Chem.SanitizeMol(molecule, _ALL if whole[graph] else local_operations)
            except ValueError as error:
                rejected[graph] = str(error).strip()
                continue
            if smiles:
                texts[graph] = orders.write(molecule, graph)
            if whole[graph]:
                full_features.read(molecule)
                full_graphs.append(graph)
            else:
                local_features.read(molecule, *region.of(graph))
                local_graphs.append(graph)
    atoms, attributes = _written(
        table, node_feat, bonds, full_features, np.array(full_graphs, np.int64)
    )
    _write_local(atoms, attributes, bonds, region, local_features, np.array(local_graphs, np.int64))
    unsupported = np.flatnonzero(atoms[:, HYBRIDIZATION] == UNKNOWN_CODE)
    rejected |= dict.fromkeys(_graphs(table, unsupported), UNSUPPORTED)
    rejected |= {full_graphs[index]: UNSUPPORTED for index in full_features.unsupported().tolist()}
    ok = np.ones(len(table), dtype=bool)
    ok[list(rejected)] = False
    _restore(table, atoms, attributes, ~ok)
    return MoleculeCheck(
        ok=ok,
        reasons=tuple(rejected.get(graph, "") for graph in range(len(table))),
        smiles=tuple(text if kept else "" for text, kept in zip(texts, ok, strict=True)),
        order=orders.flat(ok),
        mismatched=np.zeros(len(table), dtype=bool),
        node_feat=atoms.astype(FEATURE_DTYPE),
        edge_attr=attributes.astype(FEATURE_DTYPE),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _LocalRegion:
    """Atoms and bonds that new single bonds outside rings can change.

    The new bond and multiple bonds at its ends can become conjugated. Atoms of these bonds can then
    change from SP3 to SP2. All other features follow from degrees and valences, which stay the
    same.
    """

    atom: Ints
    """``[A]`` over the whole table."""
    bond: Ints
    """``[C]`` indices of bonds over the whole table."""
    atom_ptr: list[int]
    bond_ptr: list[int]
    local_atom: list[int]
    local_bond: list[int]

    def of(self, graph: int) -> tuple[list[int], list[int]]:
        """Return local ids of the atoms and bonds of one graph."""
        return (
            self.local_atom[self.atom_ptr[graph] : self.atom_ptr[graph + 1]],
            self.local_bond[self.bond_ptr[graph] : self.bond_ptr[graph + 1]],
        )


def _local_region(table: GraphTable, bonds: Bonds, bridges: Bools) -> _LocalRegion:
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
    return _LocalRegion(
        atom=atom,
        bond=bond,
        atom_ptr=atom_ptr.tolist(),
        bond_ptr=bond_ptr.tolist(),
        local_atom=(atom - np.repeat(table.node_ptr[:-1], np.diff(atom_ptr))).tolist(),
        local_bond=(bond - np.repeat(bonds.ptr[:-1], np.diff(bond_ptr))).tolist(),
    )


class _LocalFeatures:
    """Accumulates features of molecules in which only a region can have changed."""

    def __init__(self) -> None:
        self.hybridizations: list[int] = []
        self.conjugated: list[bool] = []

    def read(self, molecule: Chem.Mol, atoms: list[int], bonds: list[int]) -> None:
        atom_of, bond_of = molecule.GetAtomWithIdx, molecule.GetBondWithIdx
        self.hybridizations += [atom_of(atom).GetHybridization() for atom in atoms]
        self.conjugated += [bond_of(bond).GetIsConjugated() for bond in bonds]


def _written(
    table: GraphTable, node_feat: Ints, bonds: Bonds, full_features: FeatureRows, graphs: Ints
) -> tuple[Ints, Ints]:
    """Return the features of all atoms and edges without stereo; update complete molecules."""
    atoms, attributes = node_feat.copy(), table.dense("edge", "edge_attr").astype(np.int64)
    atoms[:, CHIRALITY], attributes[:, STEREO] = 0, 0
    atoms[ranges(table.node_ptr[graphs], table.num_nodes[graphs])] = full_features.atom_codes()
    bond = ranges(bonds.ptr[graphs], np.diff(bonds.ptr)[graphs])
    for edge in (bonds.edge[bond], bonds.back[bond]):
        attributes[edge] = full_features.bond_codes()[:, 2:]
    return atoms, attributes


def _write_local(
    atoms: Ints,
    attributes: Ints,
    bonds: Bonds,
    region: _LocalRegion,
    local_features: _LocalFeatures,
    graphs: Ints,
) -> None:
    """Update the features around the bridges of some graphs."""
    first, last = np.array(region.atom_ptr)[graphs], np.array(region.atom_ptr)[graphs + 1]
    codes = HYBRIDIZATION_CODES[np.array(local_features.hybridizations, dtype=np.int64)]
    atoms[region.atom[ranges(first, last - first)], HYBRIDIZATION] = codes
    first, last = np.array(region.bond_ptr)[graphs], np.array(region.bond_ptr)[graphs + 1]
    bond = region.bond[ranges(first, last - first)]
    for edge in (bonds.edge[bond], bonds.back[bond]):
        attributes[edge, CONJUGATED] = local_features.conjugated


def _graphs(table: GraphTable, nodes: Ints) -> list[int]:
    """Return the graphs of the given nodes."""
    graphs = np.unique(np.searchsorted(table.node_ptr, nodes, side="right") - 1)
    return [int(graph) for graph in graphs]


def _restore(table: GraphTable, atoms: Ints, attributes: Ints, failed: Bools) -> None:
    """Restore the original features of failed graphs."""
    of_node, of_edge = np.repeat(failed, table.num_nodes), np.repeat(failed, table.num_edges)
    atoms[of_node] = table.dense("node", "node_feat")[of_node]
    attributes[of_edge] = table.dense("edge", "edge_attr")[of_edge]


def write_smiles(table: GraphTable) -> tuple[list[str], Ints, Bools]:
    """Write the SMILES of complete molecules.

    Returns the texts, the node of every written atom ``[N]``, and which molecules ``[G]`` have one:
    those that RDKit accepts and whose SMILES describes the graph. The text of others is empty.
    """
    texts = [""] * len(table)
    orders = AtomOrders(table)
    node_feat = table.dense("node", "node_feat").astype(np.int64)
    with rdBase.BlockLogs():
        for graph, molecule in build_molecules(table, node_feat, undirected_bonds(table), {}):
            try:
                Chem.SanitizeMol(molecule, LOCAL_SANITIZATION | RINGS)
            except ValueError:
                continue
            texts[graph] = orders.write(molecule, graph)
    for graph in disagreements(table, texts, sanitize=False):
        texts[graph] = ""
    ok = np.array([bool(text) for text in texts], dtype=bool)
    return texts, orders.flat(ok), ok
