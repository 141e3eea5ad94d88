"""Exact subtraction of molecules, as an oracle."""

import numpy as np
from rdkit.Chem import rdFMCS

from gsx.stages.chem.smiles_reader import parse_smiles


def left_over(large, small):
    """Return the mask of the atoms of ``large`` outside its largest common part with ``small``.

    Both are SMILES; the common part is an induced one: rings match whole rings only.
    """
    return left_overs(large, small)[0]


def left_overs(large, small):
    """Return a mask for every place of ``large`` where the largest common part may lie."""
    left, right = parse_smiles(large), parse_smiles(small)
    found = rdFMCS.FindMCS([left, right], completeRingsOnly=True, ringMatchesRingOnly=True)
    assert not found.canceled
    masks = []
    for matched in left.GetSubstructMatches(found.queryMol, maxMatches=100):
        keep = np.ones(left.GetNumAtoms(), dtype=bool)
        keep[list(matched)] = False
        masks.append(keep)
    return masks
