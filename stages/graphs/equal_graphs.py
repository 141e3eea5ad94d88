"""Group equal graphs: equal structure, node features and edge attributes, in any node order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from gsx.ragged import Ints, row_indices
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.table import GraphTable


def equal_graphs(table: GraphTable, texts: Sequence[str] = ()) -> Ints:
    """Return a number per graph ``[G]`` that is the same for equal graphs.

    Molecules such as decalin and bicyclopentyl have equal Weisfeiler-Lehman hashes. So equal graphs
    must also agree in their numbers of nodes, edges and closed walks, and in ``texts``, one
    canonical text per graph, if there are any.
    """
    _, group, counts = np.unique(wl_hashes(table), return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[group] > 1)
    if not len(repeated):
        return np.asarray(group, dtype=np.int64)
    part = table.select(()).take(repeated)
    columns = [group[repeated], part.num_nodes, part.num_edges, *closed_walks(part).T]
    if texts:
        _, code = np.unique([texts[row] for row in repeated.tolist()], return_inverse=True)
        columns.append(code)
    _, refined = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    group[repeated] = len(counts) + refined.ravel()
    return np.asarray(group, dtype=np.int64)


def closed_walks(table: GraphTable) -> npt.NDArray[np.float64]:
    """Return the numbers of closed walks of 3 to 6 steps of every graph, ``[G, 4]``."""
    src, dst = global_edges(table)
    size = table.total_nodes
    step = csr_array((np.ones(len(src)), (src, dst)), shape=(size, size))
    two = step @ step
    three = two @ step
    per_node = [
        three.diagonal(),
        (two * two.T.tocsr()).sum(axis=1),
        (two * three.T.tocsr()).sum(axis=1),
        (three * three.T.tocsr()).sum(axis=1),
    ]
    owner = row_indices(table.node_ptr)
    totals = [np.bincount(owner, weights=walks, minlength=len(table)) for walks in per_node]
    return np.column_stack(totals)
