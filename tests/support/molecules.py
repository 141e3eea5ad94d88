"""Molecules for tests: a few SMILES, their graph table, and the sides of their cuts."""

import numpy as np

from gsx.ragged import row_indices
from gsx.stages.chem.fragments import connected_parts, cuttable_bonds
from gsx.stages.chem.smiles_reader import featurize, parse_smiles
from gsx.stages.graphs.subgraphs import global_edges

FEW_SMILES = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "CC1=C(C(=O)OC)C(c2cccc([N+](=O)[O-])c2)C(C(=O)OC)=C(C)N1",
    "Cc1c[nH]c(=O)n1-c1ccc(S(N)(=O)=O)cc1",
    "C[n+]1ccccc1CC[NH3+].[Cl-]",
    "OP(=O)(O)OCC1OC(n2cnc3c(N)ncnc32)CC1O",
    "CCN(CC)C(=S)SSC(=S)N(CC)CC",
    "C#CCNC(=N)N",
)


def table_from_smiles(*texts):
    """Return molecules, given as SMILES, as a table."""
    return featurize([parse_smiles(text) for text in texts])


def cut_sides(table):
    """Return a copy of the molecule and a mask of its atoms, for either side of every cut."""
    edges = np.flatnonzero(cuttable_bonds(table))
    owner = table.edge_graph()[edges]
    copies = table.take(owner)
    position = edges - table.edge_ptr[owner] + copies.edge_ptr[:-1]
    left, right = global_edges(copies)
    cut = np.isin(left * copies.total_nodes + right,
                  np.concatenate([left[position] * copies.total_nodes + right[position],
                                  right[position] * copies.total_nodes + left[position]])
                  )  # fmt: skip
    part = connected_parts(copies, ~cut)
    return copies, part == part[left[position]][row_indices(copies.node_ptr)]
