"""Frequencies at random cuts of graphs: numbers of removed edges, and their attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, row_indices
from gsx.stages.graphs.cuts import sparse_cuts
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges
from gsx.table import GraphTable

CODEBOOK_SIZE = 64
"""Maximum number of rows of a codebook."""
COUNT_QUANTILE = 0.999
"""Quantile of the numbers of removed edges that bounds the largest number."""
MAX_COUNT = 32

Codebook = tuple[tuple[float, ...], ...]
"""Distinct rows of numbers, most frequent first."""


@dataclass(frozen=True, slots=True, eq=False)
class CutFrequencies:
    """What random cuts of some graphs remove."""

    counts: Floats
    """Relative frequencies of 1, 2, … removed edges per cut."""
    attributes: Codebook
    """Attributes of removed edges; empty without edge attributes."""
    attribute_rates: tuple[float, ...]
    """Relative frequency of every attribute."""


def cut_frequencies(
    table: GraphTable, stream: np.random.Generator, may_cut: Bools | None = None
) -> CutFrequencies:
    """Cut every graph once at random and count the removed edges.

    ``may_cut`` ``[E]`` are the edges that may be cut; None allows all. Graphs that cannot be cut
    are skipped. If all are skipped, every cut counts as one removed edge.
    """
    cuts = sparse_cuts(table, stream, may_cut=may_cut)
    src, dst = global_edges(table)
    removed = np.flatnonzero((cuts.side[src] == 0) & (cuts.side[dst] == 1))
    graph = row_indices(table.node_ptr)[src[removed]]
    counts = np.bincount(graph, minlength=len(table))[cuts.cut]
    attributes, rates = (
        frequent_rows(table.dense("edge", "edge_attr")[removed])
        if "edge_attr" in table.edge
        else ((), ())
    )
    largest = largest_count(counts)
    number = np.bincount(np.minimum(counts, largest), minlength=largest + 1)[1:]
    frequencies = number / number.sum() if number.sum() else np.ones(1)
    return CutFrequencies(frequencies, attributes, rates)


def largest_count(counts: Array) -> int:
    """Return a bound of most ``counts`` of removed edges, between 1 and ``MAX_COUNT``."""
    largest = int(np.quantile(counts, COUNT_QUANTILE)) if len(counts) else 1
    return min(max(largest, 1), MAX_COUNT)


def frequent_rows(values: Array) -> tuple[Codebook, tuple[float, ...]]:
    """Return the most frequent rows, at most ``CODEBOOK_SIZE``, and their relative frequencies."""
    if not values.size:
        return (), ()
    rows, counts = np.unique(values, axis=0, return_counts=True)
    top = np.lexsort((np.arange(len(rows)), -counts))[:CODEBOOK_SIZE]
    share = counts[top] / counts[top].sum()
    return tuple(tuple(map(float, rows[t])) for t in top), tuple(share.tolist())
