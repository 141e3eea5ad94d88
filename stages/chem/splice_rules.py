"""Molecules stay molecules: where they may be cut and joined, and what splices are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.chem.check_by_graph import stand_alone, write_smiles
from gsx.stages.chem.check_by_smiles import Written, check_written
from gsx.stages.chem.features import NUM_HS, molecular
from gsx.stages.chem.fragments import cuttable, round_to_units
from gsx.stages.chem.smiles_reader import properties, read_molecules
from gsx.stages.chem.smiles_text import Texts, locate_atoms
from gsx.stages.graphs.subgraphs import Bools, largest_component
from gsx.table import GraphTable

SAMPLE = 500
"""Molecules whose scaffolds and properties are looked at."""


def rounded_pieces(train: GraphTable, causal: Bools) -> tuple[Bools, Bools]:
    """Extend causal pieces so that no ring and no multiple bond is cut, and take the rest anew."""
    whole = round_to_units(train, causal)
    return whole, largest_component(train, ~whole)


@dataclass(frozen=True, slots=True)
class Chemist:
    """Cuts molecules into molecules, and asks RDKit about every splice."""

    def pieces(self, train: GraphTable, keep: Bools) -> tuple[GraphTable, Ints, Bools]:
        """Cut pieces out as molecules of their own, hydrogens in place of the bonds cut.

        Returns them, the number of every atom in its source, and which of them are molecules.
        """
        found = stand_alone(train, keep)
        return found.table, found.numbers, found.ok

    def write(self, components: GraphTable) -> Texts:
        """Write every component once; splices are written from these."""
        texts, order = write_smiles(components)
        return locate_atoms(texts, order, components.node_ptr)

    def judge(self, table: GraphTable, written: Written) -> tuple[Bools, GraphTable]:
        """Say which graphs are molecules, and return all with features of their own."""
        bridges = table.lists("graph", "provenance.bridges")
        marked = np.zeros(table.total_edges, dtype=bool)
        marked[np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
        found = check_written(table, marked, written)
        changed = table.with_columns(
            node={"node_feat": found.node_feat}, edge={"edge_attr": found.edge_attr}
        )
        return found.ok, changed


def may_cut(table: GraphTable, info: CorpusInfo) -> Bools | None:
    """Return which edges may be cut when bridges are learned; all of them, for other graphs."""
    return cuttable(table) if molecular(info) else None


def hydrogen_column(info: CorpusInfo) -> int | None:
    """Return the feature that counts hydrogens, which replace bonds that are cut."""
    return NUM_HS if molecular(info) else None


def molecule_quality(smiles: list[str], source: list[str], known: set[str]) -> dict[str, Any]:
    """Compare new molecules with some of the source, and their scaffolds with all ``known``."""
    scaffolds = read_molecules(smiles).scaffolds
    return {
        "sample": len(smiles),
        "scaffold_novelty": round(float(np.mean([s not in known for s in scaffolds])), 4),
        "properties": _ranges(smiles),
        "source_properties": _ranges(source),
    }


def _ranges(smiles: list[str]) -> dict[str, list[float]]:
    """Return the least, the median and the largest of every property."""
    found = properties(smiles)
    columns: dict[str, Array] = {
        "heavy_atoms": found.heavy_atoms,
        "weight": found.weight,
        "log_p": found.log_p,
        "rings": found.rings,
    }
    return {
        name: [round(float(q), 2) for q in np.quantile(values, (0, 0.5, 1))]
        for name, values in columns.items()
    }
