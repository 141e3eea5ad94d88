"""Morgan count fingerprints of molecules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ragged, decode_texts, pointers
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BITS = 2048
"""Columns that fingerprints are folded to."""
RADIUS = 2
"""Largest distance in bonds between an atom and the center of a substructure (ECFP4)."""


def with_smiles(table: GraphTable) -> Array:
    """Return whether each graph has a SMILES; augmented graphs may have none."""
    return np.diff(_smiles(table).ptr) > 0


def morgan_counts(table: GraphTable, bits: int = BITS) -> csr_array:
    """Return the counts ``[G, bits]`` of substructures; all are 0 for a graph without SMILES."""
    from rdkit import rdBase
    from rdkit.Chem import rdFingerprintGenerator
    from scipy.sparse import csr_array

    from gsx.stages.chem.smiles_reader import parse_smiles

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=bits)
    columns: list[int] = []
    counts: list[int] = []
    lengths: list[int] = []
    with rdBase.BlockLogs():
        for text in decode_texts(_smiles(table)):
            substructures = (
                generator.GetCountFingerprint(parse_smiles(text)).GetNonzeroElements()
                if text
                else {}
            )
            columns += substructures.keys()
            counts += substructures.values()
            lengths.append(len(substructures))
    matrix = csr_array(
        (np.array(counts, dtype=np.float32), np.array(columns, dtype=np.int32), pointers(lengths)),
        shape=(len(table), bits),
    )
    matrix.sort_indices()
    return matrix


def _smiles(table: GraphTable) -> Ragged:
    smiles = table.graph.get("smiles")
    if not isinstance(smiles, Ragged):
        raise StageError(
            "Morgan fingerprints need molecules (a column `smiles`), and these graphs have none. "
            "Use Weisfeiler-Lehman counts (`wl`)."
        )
    return smiles
