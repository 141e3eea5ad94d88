"""Label conflicts of option 1: equal causal subgraphs of training graphs with different labels.

Every source row is drawn with the same probability, so a merged subgraph is drawn as often as it
occurs. This is its weight, which every reader of the corpus understands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.chem.splice_rules import canonical_smiles
from gsx.stages.generate.splice.component_pool import ComponentPool
from gsx.stages.graphs.equal_graphs import equal_graphs
from gsx.stages.graphs.subgraphs import Bools
from gsx.stages.graphs.wl_hash import contained_in, wl_hashes
from gsx.table import GraphTable, concat

LabelConflicts = Literal["merge", "reject", "keep"]


@dataclass(frozen=True, slots=True, eq=False)
class CausalLabels:
    """Labels of causal subgraphs as graphs of their own."""

    y: Array
    """``[R, C]`` labels of all source rows."""
    usable: Bools
    """``[R]`` source rows whose causal subgraph may be drawn."""
    counts: dict[str, int]
    """Causal subgraphs with a label: all, too small ones, distinct ones, those with a conflict, the
    distinct graphs that these are, and those whose label is not the most frequent one of their
    equals."""


def label_causal_subgraphs(
    pool: ComponentPool,
    component: Ints,
    train: GraphTable,
    y: Array,
    labelled: Bools,
    rule: LabelConflicts,
    min_nodes: int,
) -> CausalLabels:
    """Leave out causal subgraphs with fewer than ``min_nodes`` nodes, and resolve label conflicts.

    ``component`` ``[R]`` is the component of every row of ``train``, -1 if there is none. ``merge``
    gives equal subgraphs the mean of their labels; if a training graph equals them, its label.
    ``reject`` leaves out subgraphs with a conflict. ``keep`` changes nothing.
    """
    rows = np.flatnonzero((component >= 0) & labelled)
    is_large = pool.table.num_nodes[component[rows]] >= min_nodes
    subgraphs, rows = len(rows), rows[is_large]
    usable = np.zeros(len(train), dtype=bool)
    usable[rows] = True
    group, train_rows, train_group = _groups(pool, component[rows], train, labelled)
    groups = int(max(group.max(initial=-1), train_group.max(initial=-1))) + 1
    mean, differ = _means(y[rows], group, groups)
    known, known_differ = _means(y[train_rows], train_group, groups)
    with np.errstate(invalid="ignore"):
        contradicts = np.abs(known - mean) > 0  # False where either is missing
    conflict = (differ | known_differ | contradicts).any(axis=1)
    resolved = np.where(np.isnan(known), mean, known).astype(y.dtype)
    is_conflict = conflict[group]
    outvoted = _count_outvoted(y[rows], group)
    if rule == "merge":
        y = y.copy()
        y[rows[is_conflict]] = resolved[group[is_conflict]]
    elif rule == "reject":
        usable[rows[is_conflict]] = False
    counts = {
        "subgraphs": subgraphs,
        "too_small": subgraphs - len(rows),
        "distinct": len(np.unique(group)),
        "in_conflict": int(is_conflict.sum()),
        "distinct_in_conflict": len(np.unique(group[is_conflict])),
        "outvoted": outvoted,
    }
    return CausalLabels(y, usable, counts)


def _count_outvoted(y: Array, group: Ints) -> int:
    """Return how many rows do not have the most frequent label of their group."""
    if not len(group):
        return 0
    label = np.unique(np.nan_to_num(y, nan=-1.0), axis=0, return_inverse=True)[1].ravel()
    pairs, votes = np.unique(group * (int(label.max()) + 1) + label, return_counts=True)
    winners = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.maximum.at(winners, pairs // (int(label.max()) + 1), votes)
    return len(group) - int(winners.sum())


def _groups(
    pool: ComponentPool, components: Ints, train: GraphTable, labelled: Bools
) -> tuple[Ints, Ints, Ints]:
    """Return numbers of equal graphs among some components and the training graphs equal to them.

    The second array holds the rows of these training graphs, the third their numbers.
    """
    names = ("node_feat", "edge_attr")
    subgraphs = pool.table.select(names).take(components)
    candidates = contained_in(wl_hashes(train), np.unique(wl_hashes(subgraphs))) & labelled
    rows = np.flatnonzero(candidates)
    whole = train.select(names).take(rows)
    texts: list[str] = []
    if pool.smiles:
        texts = [pool.smiles[number] for number in components.tolist()]
        texts += canonical_smiles(whole)
    group = equal_graphs(concat([subgraphs, whole]), texts)
    return group[: len(components)], rows, group[len(components) :]


def _means(y: Array, group: Ints, groups: int) -> tuple[Array, Bools]:
    """Return the mean label of every group, NaN if missing, and whether labels differ.

    Both have the shape ``[groups, C]``.
    """
    shape = (groups, y.shape[1])
    total, count = np.zeros(shape), np.zeros(shape)
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    present = ~np.isnan(y)
    np.add.at(total, group, np.where(present, y, 0))
    np.add.at(count, group, present)
    np.fmin.at(low, group, y)
    np.fmax.at(high, group, y)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
    # Equal labels keep their exact value.
    return np.where(low == high, low, mean), low < high
