"""Spliced molecules checked by their SMILES: RDKit reads what is written, and agrees or says why.

One call reads a molecule; building it from arrays is one call per atom and bond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rdkit import Chem, rdBase
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gsx.ragged import Array, Ints, ranges
from gsx.stages.chem.check_by_graph import LOCAL, Checked, check_spliced, no_hydrogens
from gsx.stages.chem.features import (
    BOND_TYPE,
    CHIRALITY,
    CONJUGATED,
    DOUBLE,
    HYBRIDIZATION,
    NUM_HS,
    RADICALS,
    SINGLE,
    SP3,
    STEREO,
    TRIPLE,
)
from gsx.stages.chem.smiles_reader import HYBRIDIZATION_CODES, NO_WORD, UNKNOWN
from gsx.stages.graphs.subgraphs import Bools
from gsx.table import GraphTable

NOT_READ = "its SMILES cannot be read"


def _as_written() -> Chem.SmilesParserParams:
    params = Chem.SmilesParserParams()
    for name in ("sanitize", "removeHs", "allowCXSMILES", "parseName"):
        setattr(params, name, False)
    return params


_AS_WRITTEN = _as_written()


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Molecules of a table as SMILES, each of parts that bridges join."""

    texts: Sequence[str]
    """``[G]``"""
    place: Ints
    """``[N]`` how many atoms are written before it, over the whole table."""
    part: Ints
    """``[N]`` number of its part, rising over the whole table."""


def check_written(table: GraphTable, bridges: Bools, written: Written) -> Checked:
    """Check spliced molecules, given as SMILES too, and return the features they have now.

    ``table`` and ``bridges`` are those of ``check_spliced``, edges sorted; what is found is what it
    finds, and SMILES have been read besides. Molecules whose bridges close a ring or are no single
    bonds are left to it.
    """
    joints = _Joints.of(table, bridges, written.part)
    node_feat, edge_attr = table.dense("node", "node_feat"), table.dense("edge", "edge_attr")
    atoms, attributes = node_feat.copy(), edge_attr.copy()
    atoms[:, CHIRALITY], attributes[:, STEREO] = 0, 0
    left = atoms[joints.atom, NUM_HS].astype(np.int64) - joints.count
    short = left < 0
    refused = no_hydrogens(table, joints.atom[short], left[short], joints.count[short])
    atoms[joints.atom, NUM_HS] = np.maximum(left, 0)
    around = _Around.of(table, joints)
    read = _read(table, written, around, {*refused, *np.flatnonzero(joints.whole).tolist()})
    refused |= read.refused
    read.write(atoms, attributes, around)
    strange = around.atom[atoms[around.atom, HYBRIDIZATION] == UNKNOWN]
    named = np.searchsorted(table.node_ptr, strange, side="right") - 1
    refused |= dict.fromkeys(named.tolist(), NO_WORD)
    failed = np.zeros(len(table), dtype=bool)
    failed[list(refused)] = True
    if failed.any():
        nodes, edges = _rows(table, np.flatnonzero(failed))
        atoms[nodes], attributes[edges] = node_feat[nodes], edge_attr[edges]
    if joints.whole.any():
        whole = np.flatnonzero(joints.whole)
        nodes, edges = _rows(table, whole)
        found = check_spliced(table.take(whole), bridges[edges], smiles=False)
        atoms[nodes], attributes[edges] = found.node_feat, found.edge_attr
        failed[whole] = ~found.ok
        refused |= dict(zip(whole.tolist(), found.reasons, strict=True))
    return Checked(
        ok=~failed,
        reasons=tuple(refused.get(graph, "") for graph in range(len(table))),
        smiles=("",) * len(table),
        node_feat=atoms,
        edge_attr=attributes,
    )


def _rows(table: GraphTable, graphs: Ints) -> tuple[Ints, Ints]:
    """Return the nodes and the edges of some graphs."""
    return (
        ranges(table.node_ptr[graphs], table.num_nodes[graphs]),
        ranges(table.edge_ptr[graphs], table.num_edges[graphs]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Joints:
    """The bridges of a table."""

    edge: Ints
    """``[B]`` from the lower to the higher atom, in rising order."""
    atom: Ints
    """``[A]`` atoms at an end of a bridge, over the whole table, in rising order."""
    count: Ints
    """``[A]`` bridges of each."""
    whole: Bools
    """``[G]`` molecules in which more can change than what is near a bridge."""

    @classmethod
    def of(cls, table: GraphTable, bridges: Bools, part: Ints) -> _Joints:
        edge = np.flatnonzero(bridges)
        begin, end = (table.dense("edge", name)[edge] for name in ("edge_src", "edge_dst"))
        upward = begin < end
        edge, begin, end = edge[upward], begin[upward], end[upward]
        graph = np.searchsorted(table.edge_ptr, edge, side="right") - 1
        ends = np.concatenate([begin, end]) + np.tile(table.node_ptr[graph], 2)
        atom, count = np.unique(ends, return_counts=True)
        whole = _closes_ring(table, part, part[ends].reshape(2, -1), graph)
        whole[graph[table.dense("edge", "edge_attr")[edge, BOND_TYPE] != SINGLE]] = True
        # Reading around bridges finds no radicals, and hybridization depends on them.
        radical = np.flatnonzero(table.dense("node", "node_feat")[:, RADICALS])
        whole[np.searchsorted(table.node_ptr, radical, side="right") - 1] = True
        return cls(edge, atom, count, whole)


def _closes_ring(table: GraphTable, part: Ints, joined: Ints, graph: Ints) -> Bools:
    """Say of every graph whether its bridges, ``[2, B]`` numbers of parts, may lie on a ring.

    They do not when they are a forest over the parts, whatever the parts look like inside.
    """
    size = int(part.max(initial=-1)) + 1
    ones = np.ones(joined.shape[1], dtype=np.int8)
    matrix = csr_array((ones, (joined[0], joined[1])), shape=(size, size))
    _, tree = connected_components(matrix, directed=False)
    bounds = np.append(part, size)[table.node_ptr]
    first = np.unique(tree, return_index=True)[1]
    trees = np.diff(np.searchsorted(np.sort(first), bounds))
    return np.asarray(np.diff(bounds) - trees != np.bincount(graph, minlength=len(table)))


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """What single bonds outside rings can change where they are put.

    A bond can become conjugated: the new one, and multiple bonds at its ends. With it, atoms of
    these bonds can go from SP3 to SP2. All else follows from degrees and valences, which stay.
    """

    atom: Ints
    """``[A]`` over the whole table, in rising order."""
    edge: Ints
    """``[C]`` bonds as edges from the lower to the higher atom, in rising order."""
    back: Ints
    """``[C]`` the edges that lead back."""
    begin: Ints
    """``[C]`` lower atom over the whole table."""
    end: Ints
    atom_ptr: Ints
    """``[G + 1]``"""
    edge_ptr: Ints
    """``[G + 1]``"""

    @classmethod
    def of(cls, table: GraphTable, joints: _Joints) -> _Around:
        start = np.repeat(table.node_ptr[:-1], table.num_edges)
        src, dst = table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")
        from_ = start + src
        near = _edges_from(from_, joints.atom)
        order = table.dense("edge", "edge_attr")[near, BOND_TYPE]
        near = near[(order == DOUBLE) | (order == TRIPLE)]
        near = np.where(src[near] < dst[near], near, _reverse(from_, src, dst, start, near))
        edge = np.union1d(near, joints.edge)
        begin, end = from_[edge], start[edge] + dst[edge]
        atom = np.unique(np.concatenate([begin, end]))
        atom = atom[table.dense("node", "node_feat")[atom, HYBRIDIZATION] == SP3]
        return cls(
            atom=atom,
            edge=edge,
            back=_reverse(from_, src, dst, start, edge),
            begin=begin,
            end=end,
            atom_ptr=np.searchsorted(atom, table.node_ptr),
            edge_ptr=np.searchsorted(edge, table.edge_ptr),
        )


def _edges_from(from_: Ints, atoms: Ints) -> Ints:
    """Return the edges that start at some atoms; edges are sorted by where they start."""
    first = np.searchsorted(from_, atoms)
    return ranges(first, np.searchsorted(from_, atoms, side="right") - first)


def _reverse(from_: Ints, src: Array, dst: Array, start: Ints, edge: Ints) -> Ints:
    """Return the edges that lead back from where some edges lead."""
    ends = start[edge] + dst[edge]
    first = np.searchsorted(from_, ends)
    counts = np.searchsorted(from_, ends, side="right") - first
    found = ranges(first, counts)
    back: Ints = found[dst[found] == np.repeat(src[edge], counts)]
    return back


@dataclass(slots=True, eq=False)
class _Read:
    """What was read of molecules around their bridges, one after the other."""

    graphs: list[int] = field(default_factory=list)
    hybridizations: list[int] = field(default_factory=list)
    conjugated: list[bool] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)

    def write(self, atoms: Array, attributes: Array, around: _Around) -> None:
        """Put it into the features of all atoms and edges."""
        graphs = np.array(self.graphs, dtype=np.int64)
        atom = ranges(around.atom_ptr[graphs], np.diff(around.atom_ptr)[graphs])
        codes = HYBRIDIZATION_CODES[np.array(self.hybridizations, dtype=np.int64)]
        atoms[around.atom[atom], HYBRIDIZATION] = codes
        bond = ranges(around.edge_ptr[graphs], np.diff(around.edge_ptr)[graphs])
        for edge in (around.edge[bond], around.back[bond]):
            attributes[edge, CONJUGATED] = self.conjugated


def _read(table: GraphTable, written: Written, around: _Around, away: set[int]) -> _Read:
    """Read and check every molecule that is not ``away``."""
    found = _Read()
    atom_at, edge_at = around.atom_ptr.tolist(), around.edge_ptr.tolist()
    first = np.repeat(table.node_ptr[:-1], np.diff(around.atom_ptr))
    atom = (written.place[around.atom] - first).tolist()
    first = np.repeat(table.node_ptr[:-1], np.diff(around.edge_ptr))
    begin = (written.place[around.begin] - first).tolist()
    end = (written.place[around.end] - first).tolist()
    parse, sanitize = Chem.MolFromSmiles, Chem.SanitizeMol
    with rdBase.BlockLogs():
        for graph, text in enumerate(written.texts):
            if graph in away:
                continue
            molecule: Chem.Mol | None = parse(text, _AS_WRITTEN)
            if molecule is None:
                found.refused[graph] = NOT_READ
                continue
            try:
                sanitize(molecule, LOCAL)
            except ValueError as error:
                found.refused[graph] = str(error).strip()
                continue
            atom_of, bond_of = molecule.GetAtomWithIdx, molecule.GetBondBetweenAtoms
            atoms = slice(atom_at[graph], atom_at[graph + 1])
            bonds = slice(edge_at[graph], edge_at[graph + 1])
            found.graphs.append(graph)
            found.hybridizations += [atom_of(number).GetHybridization() for number in atom[atoms]]
            found.conjugated += [
                bond_of(*ends).GetIsConjugated()
                for ends in zip(begin[bonds], end[bonds], strict=True)
            ]
    return found
