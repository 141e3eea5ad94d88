"""Check spliced molecules by parsing the joined SMILES of their components with RDKit.

Parsing takes one call per molecule; building it from arrays takes one call per atom and bond. The
molecule is then written again as canonical SMILES.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from rdkit import Chem, rdBase
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gsx.ragged import Array, Ints, ranges, row_indices
from gsx.stages.chem.agreement import UNSANITIZED, disagreements
from gsx.stages.chem.canonical_smiles import AtomOrders
from gsx.stages.chem.check_by_graph import (
    LOCAL_SANITIZATION,
    RINGS,
    MoleculeCheck,
    check_by_graph,
    missing_hydrogens,
)
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
from gsx.stages.chem.smiles_reader import HYBRIDIZATION_CODES, UNKNOWN_CODE, UNSUPPORTED
from gsx.stages.graphs.subgraphs import Bools
from gsx.table import GraphTable

UNREADABLE = "the joined SMILES of its components cannot be read"


@dataclass(frozen=True, slots=True, eq=False)
class SpliceSmiles:
    """Joined SMILES of spliced molecules, each of components that bridges join."""

    texts: Sequence[str]
    """``[G]`` by ``splice_smiles``; bridges are pairs of ring-closure labels."""
    rank: Ints
    """``[N]`` number of atoms written before it, over the whole table."""
    component: Ints
    """``[N]`` index of its component, increasing over the whole table."""


def check_by_smiles(table: GraphTable, bridges: Bools, written: SpliceSmiles) -> MoleculeCheck:
    """Check spliced molecules by their joined SMILES; return features and canonical SMILES.

    ``table`` and ``bridges`` are those of ``check_by_graph``, with sorted edges, and the result is
    the same. Molecules whose bridges close a ring or are not single bonds are checked by it. A
    molecule also fails if its canonical SMILES does not describe the graph.
    """
    bridge_bonds = _BridgeBonds.of(table, bridges, written.component)
    node_feat, edge_attr = table.dense("node", "node_feat"), table.dense("edge", "edge_attr")
    atoms, attributes = node_feat.copy(), edge_attr.copy()
    atoms[:, CHIRALITY], attributes[:, STEREO] = 0, 0
    left = atoms[bridge_bonds.atom, NUM_HS].astype(np.int64) - bridge_bonds.count
    short = left < 0
    refused = missing_hydrogens(
        table, bridge_bonds.atom[short], left[short], bridge_bonds.count[short]
    )
    atoms[bridge_bonds.atom, NUM_HS] = np.maximum(left, 0)
    region = _LocalRegion.of(table, bridge_bonds)
    read = _parse_locally(
        table, written, region, {*refused, *np.flatnonzero(bridge_bonds.whole).tolist()}
    )
    refused |= read.refused
    read.write(atoms, attributes, region)
    unsupported = region.atom[atoms[region.atom, HYBRIDIZATION] == UNKNOWN_CODE]
    named = np.searchsorted(table.node_ptr, unsupported, side="right") - 1
    refused |= dict.fromkeys(named.tolist(), UNSUPPORTED)
    failed = np.zeros(len(table), dtype=bool)
    failed[list(refused)] = True
    if failed.any():
        nodes, edges = _rows(table, np.flatnonzero(failed))
        atoms[nodes], attributes[edges] = node_feat[nodes], edge_attr[edges]
    smiles, order = read.smiles, _node_order(table, written, read.orders, ~failed)
    if bridge_bonds.whole.any():
        whole = np.flatnonzero(bridge_bonds.whole)
        nodes, edges = _rows(table, whole)
        checked = check_by_graph(table.take(whole), bridges[edges])
        atoms[nodes], attributes[edges] = checked.node_feat, checked.edge_attr
        order[nodes] = checked.order
        failed[whole] = ~checked.ok
        refused |= dict(zip(whole.tolist(), checked.reasons, strict=True))
        for graph, text in zip(whole.tolist(), checked.smiles, strict=True):
            smiles[graph] = text
    return _check_agreement(
        table,
        MoleculeCheck(
            ok=~failed,
            reasons=tuple(refused.get(graph, "") for graph in range(len(table))),
            smiles=tuple("" if bad else text for text, bad in zip(smiles, failed, strict=True)),
            order=order,
            mismatched=np.zeros(len(table), dtype=bool),
            node_feat=atoms,
            edge_attr=attributes,
        ),
    )


def _node_order(table: GraphTable, written: SpliceSmiles, orders: AtomOrders, ok: Bools) -> Ints:
    """Return the node of every written atom, ``[N]``; parsed atoms are numbered by their rank."""
    owner = row_indices(table.node_ptr)
    start = table.node_ptr[owner]
    node = np.arange(table.total_nodes) - start
    node_of_rank = np.empty_like(node)
    node_of_rank[written.rank] = node
    return np.where(ok[owner], node_of_rank[start + orders.flat(ok)], node)


def _check_agreement(table: GraphTable, checked: MoleculeCheck) -> MoleculeCheck:
    """Reject molecules whose canonical SMILES does not describe the graph."""
    described = table.with_columns(node={"node_feat": checked.node_feat})
    reasons = disagreements(described, checked.smiles, sanitize=False)
    if not reasons:
        return checked
    mismatched = np.zeros(len(table), dtype=bool)
    mismatched[list(reasons)] = True
    return replace(
        checked,
        ok=checked.ok & ~mismatched,
        reasons=tuple(reasons.get(graph, text) for graph, text in enumerate(checked.reasons)),
        smiles=tuple("" if graph in reasons else text for graph, text in enumerate(checked.smiles)),
        mismatched=mismatched,
    )


def _rows(table: GraphTable, graphs: Ints) -> tuple[Ints, Ints]:
    """Return the nodes and edges of some graphs."""
    return (
        ranges(table.node_ptr[graphs], table.num_nodes[graphs]),
        ranges(table.edge_ptr[graphs], table.num_edges[graphs]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _BridgeBonds:
    """Bridges of a table."""

    edge: Ints
    """``[B]`` edges from the lower to the higher atom, in increasing order."""
    atom: Ints
    """``[A]`` atoms at an end of a bridge, in increasing order."""
    count: Ints
    """``[A]`` number of bridges of each atom."""
    whole: Bools
    """``[G]`` molecules that can change beyond the neighborhood of a bridge."""

    @classmethod
    def of(cls, table: GraphTable, bridges: Bools, component: Ints) -> _BridgeBonds:
        edge = np.flatnonzero(bridges)
        begin, end = (table.dense("edge", name)[edge] for name in ("edge_src", "edge_dst"))
        upward = begin < end
        edge, begin, end = edge[upward], begin[upward], end[upward]
        graph = np.searchsorted(table.edge_ptr, edge, side="right") - 1
        ends = np.concatenate([begin, end]) + np.tile(table.node_ptr[graph], 2)
        atom, count = np.unique(ends, return_counts=True)
        whole = _closes_ring(table, component, component[ends].reshape(2, -1), graph)
        whole[graph[table.dense("edge", "edge_attr")[edge, BOND_TYPE] != SINGLE]] = True
        # Local sanitization does not find radicals, on which hybridization depends.
        radical = np.flatnonzero(table.dense("node", "node_feat")[:, RADICALS])
        whole[np.searchsorted(table.node_ptr, radical, side="right") - 1] = True
        return cls(edge, atom, count, whole)


def _closes_ring(table: GraphTable, component: Ints, joined: Ints, graph: Ints) -> Bools:
    """Return whether the bridges of each graph, ``[2, B]`` component indices, may close a ring.

    They do not if they form a forest over the components.
    """
    size = int(component.max(initial=-1)) + 1
    ones = np.ones(joined.shape[1], dtype=np.int8)
    matrix = csr_array((ones, (joined[0], joined[1])), shape=(size, size))
    _, tree = connected_components(matrix, directed=False)
    bounds = np.append(component, size)[table.node_ptr]
    first = np.unique(tree, return_index=True)[1]
    trees = np.diff(np.searchsorted(np.sort(first), bounds))
    return np.asarray(np.diff(bounds) - trees != np.bincount(graph, minlength=len(table)))


@dataclass(frozen=True, slots=True, eq=False)
class _LocalRegion:
    """Atoms and bonds that new single bonds outside rings can change.

    The new bond and multiple bonds at its ends can become conjugated. Atoms of these bonds can then
    change from SP3 to SP2. All other features follow from degrees and valences, which stay the
    same.
    """

    atom: Ints
    """``[A]`` global ids, in increasing order."""
    edge: Ints
    """``[C]`` bonds as edges from the lower to the higher atom, in increasing order."""
    back: Ints
    """``[C]`` reverse edges."""
    begin: Ints
    """``[C]`` global id of the lower atom."""
    end: Ints
    atom_ptr: Ints
    """``[G + 1]``"""
    edge_ptr: Ints
    """``[G + 1]``"""

    @classmethod
    def of(cls, table: GraphTable, bridge_bonds: _BridgeBonds) -> _LocalRegion:
        start = np.repeat(table.node_ptr[:-1], table.num_edges)
        src, dst = table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")
        from_ = start + src
        near = _edges_from(from_, bridge_bonds.atom)
        order = table.dense("edge", "edge_attr")[near, BOND_TYPE]
        near = near[(order == DOUBLE) | (order == TRIPLE)]
        near = np.where(src[near] < dst[near], near, _reverse(from_, src, dst, start, near))
        edge = np.union1d(near, bridge_bonds.edge)
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
    """Return the edges that start at some atoms; edges are sorted by source."""
    first = np.searchsorted(from_, atoms)
    return ranges(first, np.searchsorted(from_, atoms, side="right") - first)


def _reverse(from_: Ints, src: Array, dst: Array, start: Ints, edge: Ints) -> Ints:
    """Return the reverse edges of some edges."""
    ends = start[edge] + dst[edge]
    first = np.searchsorted(from_, ends)
    counts = np.searchsorted(from_, ends, side="right") - first
    candidates = ranges(first, counts)
    back: Ints = candidates[dst[candidates] == np.repeat(src[edge], counts)]
    return back


@dataclass(slots=True, eq=False)
class _LocalFeatures:
    """SMILES of molecules, and their features around their bridges."""

    smiles: list[str]
    """``[G]`` canonical SMILES; empty after a failure."""
    orders: AtomOrders
    graphs: list[int] = field(default_factory=list)
    hybridizations: list[int] = field(default_factory=list)
    conjugated: list[bool] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)

    def write(self, atoms: Array, attributes: Array, region: _LocalRegion) -> None:
        """Update the features of all atoms and edges."""
        graphs = np.array(self.graphs, dtype=np.int64)
        atom = ranges(region.atom_ptr[graphs], np.diff(region.atom_ptr)[graphs])
        codes = HYBRIDIZATION_CODES[np.array(self.hybridizations, dtype=np.int64)]
        atoms[region.atom[atom], HYBRIDIZATION] = codes
        bond = ranges(region.edge_ptr[graphs], np.diff(region.edge_ptr)[graphs])
        for edge in (region.edge[bond], region.back[bond]):
            attributes[edge, CONJUGATED] = self.conjugated


def _parse_locally(
    table: GraphTable, written: SpliceSmiles, region: _LocalRegion, skipped: set[int]
) -> _LocalFeatures:
    """Parse and sanitize every molecule that is not in ``skipped``."""
    features = _LocalFeatures([""] * len(table), AtomOrders(table))
    atom_at, edge_at = region.atom_ptr.tolist(), region.edge_ptr.tolist()
    first = np.repeat(table.node_ptr[:-1], np.diff(region.atom_ptr))
    atom = (written.rank[region.atom] - first).tolist()
    first = np.repeat(table.node_ptr[:-1], np.diff(region.edge_ptr))
    begin = (written.rank[region.begin] - first).tolist()
    end = (written.rank[region.end] - first).tolist()
    parse, sanitize = Chem.MolFromSmiles, Chem.SanitizeMol
    with rdBase.BlockLogs():
        for graph, text in enumerate(written.texts):
            if graph in skipped:
                continue
            molecule: Chem.Mol | None = parse(text, UNSANITIZED)
            if molecule is None:
                features.refused[graph] = UNREADABLE
                continue
            try:
                sanitize(molecule, LOCAL_SANITIZATION | RINGS)
            except ValueError as error:
                features.refused[graph] = str(error).strip()
                continue
            atom_of, bond_of = molecule.GetAtomWithIdx, molecule.GetBondBetweenAtoms
            atoms = slice(atom_at[graph], atom_at[graph + 1])
            bonds = slice(edge_at[graph], edge_at[graph + 1])
            features.graphs.append(graph)
            features.smiles[graph] = features.orders.write(molecule, graph)
            features.hybridizations += [
                atom_of(number).GetHybridization() for number in atom[atoms]
            ]
            features.conjugated += [
                bond_of(*ends).GetIsConjugated()
                for ends in zip(begin[bonds], end[bonds], strict=True)
            ]
    return features
