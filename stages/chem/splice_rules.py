"""Splicing rules for molecules: where they may be cut, and checks of spliced molecules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints, Ragged, encode_texts, pointers
from gsx.schema import CorpusInfo
from gsx.stages.chem.check_by_graph import cut_out_molecules, write_smiles
from gsx.stages.chem.check_by_smiles import SpliceSmiles, check_by_smiles
from gsx.stages.chem.explicit_hydrogens import merge_hydrogens
from gsx.stages.chem.features import NUM_HS, is_molecular
from gsx.stages.chem.fragments import cuttable_bonds, round_to_units
from gsx.stages.chem.smiles_reader import molecule_properties, read_molecules
from gsx.stages.chem.smiles_text import ComponentSmiles, locate_atoms
from gsx.stages.graphs.splice import reorder_nodes
from gsx.stages.graphs.subgraphs import Bools, largest_component
from gsx.table import GraphTable, Values

SAMPLED_MOLECULES = 500
"""Molecules whose scaffolds and properties are computed."""


def round_subgraphs_to_units(train: GraphTable, causal: Bools) -> tuple[Bools, Bools]:
    """Return causal and environmental subgraphs that cut no ring and no multiple bond.

    ``causal`` ``[N]`` are the nodes of causal subgraphs. They are extended to whole units; the
    environmental subgraph is the largest component of the remaining nodes.
    """
    rounded = round_to_units(train, causal)
    return rounded, largest_component(train, ~rounded)


def cut_molecules(train: GraphTable, keep: Bools) -> tuple[GraphTable, Ints, Bools]:
    """Cut the atoms ``keep`` ``[N]`` out as molecules; hydrogens replace the cut bonds.

    Returns the molecules, the number of every atom in its source, and which rows are valid.
    """
    cut = cut_out_molecules(train, keep, smiles=False)
    return cut.table, cut.numbers, cut.ok


def without_hydrogen_nodes(molecules: GraphTable, number: Ints) -> tuple[GraphTable, Ints]:
    """Merge hydrogens that are nodes into their neighbors; ``number`` ``[N]`` numbers all nodes.

    Spliced molecules keep neither stereo nor isotopes, so RDKit reads no hydrogens as atoms.
    """
    merged, kept = merge_hydrogens(molecules)
    return merged, number[kept]


def write_component_smiles(components: GraphTable) -> tuple[ComponentSmiles, Bools]:
    """Return the SMILES from which those of splices are joined, and which components have one.

    The SMILES are those of the components ``[C]`` that RDKit accepts and that their SMILES
    describes; others cannot be spliced.
    """
    texts, order, ok = write_smiles(components)
    of_node = np.repeat(ok, components.num_nodes)
    node_ptr = pointers(components.num_nodes[ok])
    return locate_atoms([text for text in texts if text], order[of_node], node_ptr), ok


def canonical_smiles(molecules: GraphTable) -> list[str]:
    """Return the canonical SMILES of every molecule; empty if RDKit rejects it."""
    return write_smiles(molecules)[0]


@dataclass(frozen=True, slots=True, eq=False)
class CheckedSplices:
    """Spliced graphs, and which of them are molecules."""

    table: GraphTable
    """All graphs with recomputed features and canonical SMILES; node i is the i-th atom of it."""
    is_molecule: Bools
    """``[G]`` whether RDKit accepts the graph."""
    agrees: Bools
    """``[G]`` whether the SMILES describes the graph."""


def check_spliced_molecules(table: GraphTable, written: SpliceSmiles) -> CheckedSplices:
    """Check spliced graphs, write their SMILES and put their nodes into the order of the atoms.

    ``written`` are the joined SMILES of their components. The provenance of nodes and bridges is
    put into the new order, too.
    """
    bridges = table.lists("graph", "provenance.bridges")
    is_bridge = np.zeros(table.total_edges, dtype=bool)
    is_bridge[np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
    checked = check_by_smiles(table, is_bridge, written)
    recomputed = table.with_columns(
        node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
    )
    nodes = np.repeat(table.node_ptr[:-1], table.num_nodes) + checked.order
    ordered, edges = reorder_nodes(recomputed, nodes)
    provenance: dict[str, Values] = {
        name: Ragged(table.node_ptr, table.lists("graph", name).values[nodes])
        for name in ("provenance.node_slot", "provenance.node_number")
    }
    position = np.flatnonzero(is_bridge[edges])
    positions = position - np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr))
    provenance["provenance.bridges"] = Ragged(bridges.ptr, positions.astype(np.int32))
    return CheckedSplices(
        ordered.with_columns(graph={**provenance, "smiles": encode_texts(checked.smiles)}),
        checked.ok | checked.mismatched,
        ~checked.mismatched,
    )


def cuttable_edges(table: GraphTable, info: CorpusInfo) -> Bools | None:
    """Return the edges of molecules that may be cut, ``[E]``; None allows all edges."""
    return cuttable_bonds(table) if is_molecular(info) else None


def hydrogen_column(info: CorpusInfo) -> int | None:
    """Return the index of the feature that counts hydrogens; None if graphs are not molecules.

    Hydrogens replace bonds that are cut.
    """
    return NUM_HS if is_molecular(info) else None


def molecule_metrics(smiles: list[str], source: list[str], scaffolds: set[str]) -> dict[str, Any]:
    """Compare spliced molecules with a sample of source molecules and all source scaffolds."""
    new_scaffolds = read_molecules(smiles).scaffolds
    return {
        "sample": len(smiles),
        "scaffold_novelty": round(float(np.mean([s not in scaffolds for s in new_scaffolds])), 4),
        "properties": _quantiles(smiles),
        "source_properties": _quantiles(source),
    }


def _quantiles(smiles: list[str]) -> dict[str, list[float]]:
    """Return minimum, median and maximum of every property."""
    computed = molecule_properties(smiles)
    columns: dict[str, Array] = {
        "heavy_atoms": computed.heavy_atoms,
        "weight": computed.weight,
        "log_p": computed.log_p,
        "rings": computed.rings,
    }
    return {
        name: [round(float(q), 2) for q in np.quantile(values, (0, 0.5, 1))]
        for name, values in columns.items()
    }
