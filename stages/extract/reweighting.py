"""Sampling weights that make labels independent of graph size and node degree.

If the environment nearly always agrees with the label, it appears causal. The few graphs in which
they disagree are decisive. So graphs with similar size and degrees are grouped by the class that a
network predicts from the whole graph, and every graph is drawn in inverse proportion to the
probability of its class within the group. If size and degree do not predict the class, all graphs
have about the same weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Ints, row_indices
from gsx.stages.extract.data import ExtractorData
from gsx.stages.graphs.subgraphs import Floats, global_edges
from gsx.stages.nn.losses import estimate_prior
from gsx.table import GraphTable

BINS = 4
"""Quantile bins per feature."""


@dataclass(frozen=True, slots=True, eq=False)
class SamplingWeights:
    """Sampling probabilities of graphs."""

    train: Floats
    """``[G]`` probabilities of training graphs, which sum to 1."""
    held_out: Floats
    """``[H]`` weights of held-out graphs, which sum to 1."""
    shape_accuracy: float | None
    """Accuracy of predicting the class of held-out graphs from size and degree alone. None without
    reweighting."""

    @property
    def effective_graphs(self) -> float:
        """Effective sample size of the training graphs."""
        return float(1 / (self.train**2).sum())


def uniform_weights(graphs: int) -> Floats:
    """Return equal weights ``[graphs]``, which sum to 1."""
    return np.full(graphs, 1 / max(graphs, 1))


def size_and_degree_features(graphs: GraphTable) -> Floats:
    """Return log size, mean log degree and standard deviation of log degrees, ``[G, 3]``."""
    src, _ = global_edges(graphs)
    degree = np.log1p(np.bincount(src, minlength=graphs.total_nodes))
    owner, counts = row_indices(graphs.node_ptr), np.maximum(graphs.num_nodes, 1)
    mean = np.bincount(owner, degree, minlength=len(graphs)) / counts
    mean_square = np.bincount(owner, degree**2, minlength=len(graphs)) / counts
    std = np.sqrt(np.maximum(mean_square - mean**2, 0))
    return np.column_stack([np.log1p(graphs.num_nodes), mean, std])


def reweight(
    data: ExtractorData,
    held_out: ExtractorData,
    logits: Tensor,
    held_out_logits: Tensor,
    *,
    max_weight: float,
) -> SamplingWeights:
    """Return sampling weights of training and held-out graphs.

    ``logits`` ``[G, C]`` and ``held_out_logits`` ``[H, C]`` are predictions from whole graphs.
    ``max_weight`` bounds the factor by which a graph may be drawn more often than without
    reweighting.
    """
    prior = estimate_prior(torch.from_numpy(data.y), data.task)
    label = predicted_class(logits, prior, data.task)
    held_out_label = predicted_class(held_out_logits, prior, data.task)
    features = size_and_degree_features(data.graphs)
    bin_edges = np.quantile(features, np.arange(1, BINS) / BINS, axis=0)
    cell = _cells(features, bin_edges)
    held_out_cell = _cells(size_and_degree_features(held_out.graphs), bin_edges)
    num_classes = max(len(prior), 2)
    count = np.zeros((BINS ** features.shape[1], num_classes))
    np.add.at(count, (cell, label), 1)
    class_share = np.bincount(label, minlength=num_classes) / len(label)
    probability = (count + class_share) / (count.sum(axis=1, keepdims=True) + 1)

    def weights(cell: Ints, label: Ints) -> Floats:
        weight = np.minimum(
            class_share[label] / np.maximum(probability[cell, label], 1e-9), max_weight
        )
        return np.asarray(weight / weight.sum())

    accuracy = float((probability[held_out_cell].argmax(axis=1) == held_out_label).mean())
    return SamplingWeights(
        weights(cell, label), weights(held_out_cell, held_out_label), round(accuracy, 6)
    )


def predicted_class(logits: Tensor, prior: Tensor, task: str) -> Ints:
    """Return the class whose probability exceeds its prior by the largest factor, ``[G]``."""
    if task != "classification":
        return np.asarray((logits[:, 0] > torch.logit(prior[0])).numpy(), dtype=np.int64)
    return np.asarray((logits.log_softmax(dim=1) - prior.log()).argmax(dim=1).numpy())


def _cells(features: Floats, bin_edges: Floats) -> Ints:
    """Return the histogram cell of every row ``[G, D]``; ``bin_edges`` is ``[BINS - 1, D]``."""
    bins = [
        np.searchsorted(edges, values)
        for edges, values in zip(bin_edges.T, features.T, strict=True)
    ]
    return np.asarray(np.ravel_multi_index(bins, (BINS,) * len(bins)))
