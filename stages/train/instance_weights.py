"""Instance weights of SRGNN: training nodes weighted to resemble all nodes of the graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import gcn_matrix
from gsx.stages.train.kernel_mean_matching import (
    NUM_FEATURES,
    kernel_mean_matching,
    random_fourier_features,
)
from gsx.stages.train.node_data import NodeTrainingData

HOPS = 2
"""Graph convolutions before nodes are compared, as published."""


def instance_weights(data: NodeTrainingData, seed: int) -> Tensor:
    """Return weights ``[T]`` of the training nodes of all variants, in the order of the variants.

    Nodes are compared by their convolved features. Only labels of training nodes are used, to keep
    class proportions.
    """
    adjacencies = {id(variant.adjacency): variant.adjacency for variant in data.variants}
    matrices = {
        key: gcn_matrix(adjacency).astype(np.float32) for key, adjacency in adjacencies.items()
    }
    weights = []
    for number, variant in enumerate(data.variants):
        stream = rng(seed, "train", "resemblance", number)
        size = (variant.features.shape[1], NUM_FEATURES)
        projections = variant.features @ stream.standard_normal(size, dtype=np.float32)
        for _ in range(HOPS):
            projections = matrices[id(variant.adjacency)] @ projections
        rows = random_fourier_features(projections, stream)
        mean = rows.mean(axis=0, dtype=np.float64)
        group = _classes(data, variant.train)
        weights.append(kernel_mean_matching(rows[variant.train], mean, group))
    return torch.from_numpy(np.concatenate(weights).astype(np.float32))


def _classes(data: NodeTrainingData, nodes: Ints) -> Ints:
    """Return classes of nodes, numbered from 0 without gaps; all 0 for other tasks."""
    if data.task != "classification":
        return np.zeros(len(nodes), dtype=np.int64)
    return np.unique(data.graphs.y[nodes].argmax(axis=1), return_inverse=True)[1]
