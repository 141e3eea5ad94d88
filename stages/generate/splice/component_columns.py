"""Temporary columns of components, and the columns of new bridges.

Components carry these columns while graphs are spliced. They are dropped before graphs are stored.
"""

from __future__ import annotations

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.augmented.derived_columns import missing_values
from gsx.stages.graphs.cut_frequencies import Codebook
from gsx.table import GraphTable

SOURCE_NUMBER = "source_number"
"""Node column: number of the node in its source graph."""
PORT = "port"
"""Node column: number of edges the node had to nodes outside the component."""
SMILES_START, SMILES_END = "smiles_start", "smiles_end"
"""Node columns: position of the atom in the SMILES string of its component."""
SMILES_ORDER = "smiles_place"
"""Node column: number of atoms written before it in that string."""
COPY = "copy"
"""Node column of enlarged subgraphs: 0 in P1, the number of the copy in P2."""
JOINT = "joint"
"""Edge column of enlarged subgraphs: 1 for edges between P1 and copies of P2."""

NODE_COLUMNS = frozenset(
    {
        SOURCE_NUMBER,
        SMILES_ORDER,
        PORT,
        COPY,
        SMILES_START,
        SMILES_END,
    }
)
"""All temporary node columns."""


def bridge_columns(
    table: GraphTable, attribute: Ints, attributes: Codebook, *, fixed: bool
) -> dict[str, Array]:
    """Return the edge columns of B new bridges except for their end nodes, ``[B, …]`` each.

    ``attribute`` ``[B]`` are indices into the codebook ``attributes``. With ``fixed`` all bridges
    get the most frequent attribute.
    """
    columns: dict[str, Array] = {}
    for name in set(table.edge) - {"edge_src", "edge_dst"}:
        existing = table.dense("edge", name)
        if name == "edge_attr":
            chosen = np.zeros_like(attribute) if fixed else attribute
            columns[name] = np.asarray(attributes)[chosen].astype(existing.dtype)
        elif name == JOINT:
            columns[name] = np.ones(len(attribute), dtype=existing.dtype)
        else:
            shape = (len(attribute), *existing.shape[1:])
            columns[name] = missing_values(existing.dtype, shape)
    return columns
