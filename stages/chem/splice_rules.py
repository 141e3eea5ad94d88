"""Splicing rules for molecules: where they may be cut, and checks of spliced molecules."""

from __future__ import annotations

from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.chem.check_by_graph import cut_out_molecules, write_smiles
from gsx.stages.chem.check_by_smiles import SpliceSmiles, check_by_smiles
from gsx.stages.chem.features import NUM_HS, is_molecular
from gsx.stages.chem.fragments import cuttable_bonds, round_to_units
from gsx.stages.chem.smiles_reader import molecule_properties, read_molecules
from gsx.stages.chem.smiles_text import ComponentSmiles, locate_atoms
from gsx.stages.graphs.subgraphs import Bools, largest_component
from gsx.table import GraphTable

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
    cut = cut_out_molecules(train, keep)
    return cut.table, cut.numbers, cut.ok


def write_component_smiles(components: GraphTable) -> ComponentSmiles:
    """Return the SMILES of every component, from which the SMILES of splices are assembled."""
    texts, order = write_smiles(components)
    return locate_atoms(texts, order, components.node_ptr)


def check_spliced_molecules(table: GraphTable, written: SpliceSmiles) -> tuple[Bools, GraphTable]:
    """Return which spliced graphs are valid molecules, and all graphs with recomputed features."""
    bridges = table.lists("graph", "provenance.bridges")
    is_bridge = np.zeros(table.total_edges, dtype=bool)
    is_bridge[np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
    checked = check_by_smiles(table, is_bridge, written)
    recomputed = table.with_columns(
        node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
    )
    return checked.ok, recomputed


def cuttable_edges(table: GraphTable, info: CorpusInfo) -> Bools | None:
    """Return the edges of molecules that may be cut, ``[E]``; None allows all edges."""
    return cuttable_bonds(table) if is_molecular(info) else None


def hydrogen_column(info: CorpusInfo) -> int | None:
    """Return the index of the feature that counts hydrogens; None if graphs are no molecules.

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
