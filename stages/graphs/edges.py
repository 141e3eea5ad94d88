"""Edges of whole tables, for kernels that need nothing but arrays."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ints
from gsx.table import GraphTable


def global_edges(table: GraphTable) -> tuple[Ints, Ints]:
    """Return the ends of every edge as numbers over the whole table, ``[E]`` each."""
    start = np.repeat(table.node_ptr[:-1], table.num_edges)
    return start + table.dense("edge", "edge_src"), start + table.dense("edge", "edge_dst")
