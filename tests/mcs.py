"""Exact subtraction of molecules, as an oracle."""

import numpy as np
from rdkit.Chem import rdFMCS

from gsx.stages.kernels.chem import parse_smiles


def left_over(large, small):
    """Return the mask of the atoms of ``large`` outside its largest common part with ``small``.

    Both are SMILES; the common part is an induced one: rings match whole rings only.
    """
    left, right = parse_smiles(large), parse_smiles(small)
    found = rdFMCS.FindMCS([left, right], completeRingsOnly=True, ringMatchesRingOnly=True)
    matched = left.GetSubstructMatch(found.queryMol)
    keep = np.ones(left.GetNumAtoms(), dtype=bool)
    keep[list(matched)] = False
    return keep
