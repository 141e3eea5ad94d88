"""Merge hydrogens that are nodes into their neighbors.

RDKit reads ``[H]`` as an atom if a double bond needs it for its stereo, or if it is an isotope.
Graphs that lose stereo and isotopes, such as components of spliced molecules, must lose these nodes
too: RDKit would read their SMILES without them.
"""

from __future__ import annotations

import numpy as np

from gsx.stages.chem.features import (
    ATOMIC_NUM,
    BOND_TYPE,
    CHARGE,
    FEATURE_DTYPE,
    HYDROGEN,
    LOWEST_CHARGE,
    NUM_HS,
    SINGLE,
)
from gsx.stages.graphs.subgraphs import Bools, global_edges, induced_subgraphs
from gsx.table import GraphTable

DUMMY = 0
"""Atomic number of ``*``, whose hydrogens RDKit keeps."""


def merge_hydrogens(table: GraphTable) -> tuple[GraphTable, Bools]:
    """Return molecules whose hydrogens are counted by their neighbors, and the kept nodes ``[N]``.

    A hydrogen is merged if it has no charge and one single bond, to an atom that is neither a
    hydrogen nor a dummy atom: those that RDKit merges in a molecule without stereo and isotopes.
    """
    features = table.dense("node", "node_feat")
    element = features[:, ATOMIC_NUM]
    is_hydrogen = (element == HYDROGEN) & (features[:, CHARGE] == -LOWEST_CHARGE)
    keep = np.ones(table.total_nodes, dtype=bool)
    if not is_hydrogen.any():
        return table, keep
    src, dst = global_edges(table)
    degree = np.bincount(src, minlength=table.total_nodes)
    is_single = table.dense("edge", "edge_attr")[:, BOND_TYPE] == SINGLE
    has_neighbor = is_single & (element[dst] != HYDROGEN) & (element[dst] != DUMMY)
    merged = np.flatnonzero(is_hydrogen[src] & (degree[src] == 1) & has_neighbor)
    keep[src[merged]] = False
    added = np.bincount(dst[merged], minlength=table.total_nodes)
    counted = features.copy()
    counted[:, NUM_HS] += added.astype(FEATURE_DTYPE)
    fewer, _ = induced_subgraphs(table.with_columns(node={"node_feat": counted}), keep)
    return fewer, keep
