"""Balance: draw graphs so that their coarse shape says nothing about their label.

Where the surroundings nearly always go with the label, they look like its cause. The few graphs in
which the two disagree decide: a network trained on whole graphs tells which label each graph is
taken for, graphs of about one size and degree are counted together, and every graph is drawn as
often as its label is surprising among them. Where shape says nothing, all are drawn about alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Ints, rows_of
from gsx.stages.extract.data import Lesson
from gsx.stages.graphs.subgraphs import Floats, global_edges
from gsx.stages.nn.losses import prior_of
from gsx.table import GraphTable

BINS = 4
"""Classes of equal share into which each number of a shape falls."""


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """How often graphs are drawn."""

    train: Floats
    """``[G]`` shares of training graphs, in sum 1."""
    held: Floats
    """``[H]`` shares of held-out graphs, in sum 1."""
    told_by_shape: float | None
    """How often the coarse shape of a graph alone tells the label it is taken for; None where
    nothing was balanced."""

    @property
    def effective_graphs(self) -> float:
        """Training graphs that, drawn equally often, would teach as much."""
        return float(1 / (self.train**2).sum())


def even(graphs: int) -> Floats:
    """Draw all graphs equally often."""
    return np.full(graphs, 1 / max(graphs, 1))


def coarse_shape(graphs: GraphTable) -> Floats:
    """Return what a graph looks like from far away, ``[G, 3]``: size, mean and spread of degrees.

    All on a logarithmic scale.
    """
    src, _ = global_edges(graphs)
    degree = np.log1p(np.bincount(src, minlength=graphs.total_nodes))
    owner, counts = rows_of(graphs.node_ptr), np.maximum(graphs.num_nodes, 1)
    mean = np.bincount(owner, degree, minlength=len(graphs)) / counts
    square = np.bincount(owner, degree**2, minlength=len(graphs)) / counts
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    return np.column_stack([np.log1p(graphs.num_nodes), mean, spread])


def balance(
    lesson: Lesson, held: Lesson, told: Tensor, held_told: Tensor, *, largest_weight: float
) -> Balance:
    """Balance training and held-out graphs; ``told`` are logits ``[G, C]`` from whole graphs.

    ``largest_weight`` bounds how much more often a graph may be drawn than without balance.
    """
    prior = prior_of(torch.from_numpy(lesson.y), lesson.task)
    label = taken_for(told, prior, lesson.task)
    held_label = taken_for(held_told, prior, lesson.task)
    shape = coarse_shape(lesson.graphs)
    edges = np.quantile(shape, np.arange(1, BINS) / BINS, axis=0)
    cell, held_cell = _cells(shape, edges), _cells(coarse_shape(held.graphs), edges)
    classes = max(len(prior), 2)
    count = np.zeros((BINS ** shape.shape[1], classes))
    np.add.at(count, (cell, label), 1)
    share = np.bincount(label, minlength=classes) / len(label)
    belief = (count + share) / (count.sum(axis=1, keepdims=True) + 1)

    def shares(cell: Ints, label: Ints) -> Floats:
        weight = np.minimum(share[label] / np.maximum(belief[cell, label], 1e-9), largest_weight)
        return np.asarray(weight / weight.sum())

    right = float((belief[held_cell].argmax(axis=1) == held_label).mean())
    return Balance(shares(cell, label), shares(held_cell, held_label), round(right, 6))


def taken_for(logits: Tensor, prior: Tensor, task: str) -> Ints:
    """Return the class whose belief rose most above its share, ``[G]``."""
    if task != "classification":
        return np.asarray((logits[:, 0] > torch.logit(prior[0])).numpy(), dtype=np.int64)
    return np.asarray((logits.log_softmax(dim=1) - prior.log()).argmax(dim=1).numpy())


def _cells(shape: Floats, edges: Floats) -> Ints:
    """Return the cell of every shape ``[G, D]``, given the bounds of bins ``[BINS - 1, D]``."""
    bins = [np.searchsorted(edge, values) for edge, values in zip(edges.T, shape.T, strict=True)]
    return np.asarray(np.ravel_multi_index(bins, (BINS,) * len(bins)))
