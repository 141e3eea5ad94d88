"""A validation set of augmented graphs: those that come from parents which are not trained on.

A share of the source graphs, the *held-out parents*, is drawn from a named random stream. Neither
they nor any graph with such a parent is trained on. Graphs with such a parent are the validation
set: they leave the training distribution as augmented graphs do, and a network has never been
trained on at least one of their components, or on the partner of feature extrapolation.
"""

from __future__ import annotations

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, row_indices
from gsx.schema import ORIGINS
from gsx.seeds import rng
from gsx.table import GraphTable

SHARE = 0.1
"""Fraction of the source graphs that are held out as parents."""
COLUMNS = ("graph_id", "provenance.parents", "provenance.partner")
"""Columns that ``hold_out_parents`` reads in addition to those of training."""


def hold_out_parents(
    train: GraphTable, task: str, name: str, seed: int
) -> tuple[GraphTable, GraphTable]:
    """Return the graphs to train on, and the augmented graphs of held-out parents.

    Validation graphs whose label has no most likely value are left out: they cannot be scored.
    """
    source = train.dense("graph", "origin") == ORIGINS.index("source")
    parents = train.lists("graph", "provenance.parents")
    ids = np.unique(np.concatenate([train.dense("graph", "graph_id")[source], parents.values]))
    count = max(round(SHARE * len(ids)), 1)
    held_out = rng(seed, "train", "held-out parents").permutation(ids)[:count]
    has_parent = np.zeros(len(train), dtype=bool)
    owner = row_indices(parents.ptr)
    has_parent[owner[np.isin(parents.values, held_out)]] = True
    # The partner of feature extrapolation gives features to the graph: it counts as a parent.
    has_parent |= np.isin(train.dense("graph", "provenance.partner"), held_out)
    is_parent = source & np.isin(train.dense("graph", "graph_id"), held_out)
    validation = train.filter(has_parent & ~source)
    validation = validation.filter(_has_likely_label(validation.dense("graph", "y"), task))
    if not len(validation):
        raise StageError(
            f"{name} has no augmented training graphs of held-out parents, which `select = "
            '"augmented"` needs. Train on an augmented corpus, or use `--select last`.'
        )
    return train.filter(~has_parent & ~is_parent), validation


def _has_likely_label(y: Array, task: str) -> Array:
    """Return whether each label ``[G, C]`` has a most likely class, or a likely value per task."""
    if task == "classification":
        largest = np.sort(y, axis=1)[:, -2:]
        return np.asarray(largest[:, -1] > largest[:, 0])
    likely = ~np.isnan(y).all(axis=1)
    if task != "regression":
        likely &= ~(y == 0.5).any(axis=1)
    return np.asarray(likely)
