"""The paper's mask: k1, k2 and T are trained jointly with a classifier of extrapolated samples.

The score of a feature is ``k1 · E_y Var[x | y] - k2 · E_env Var[x | env]``, with variances in the
units of the features, and the mask selects the features whose score exceeds T. In every step the
classifier predicts the labels of samples whose features were extrapolated with the current mask;
the loss updates the classifier, k1, k2 and T. A threshold has no gradient, so the forward pass uses
the mask itself and the backward pass that of a sigmoid (straight-through).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gsx.ragged import Array
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats, variance_scores
from gsx.stages.mask.extrapolated_samples import SampledBatch, TrainingSamples
from gsx.stages.mask.feature_statistics import FeatureStatistics
from gsx.stages.mask.mask_search import LearnedMask
from gsx.stages.nn.batches import SparseMatrix, sparse_matrix, spmm
from gsx.stages.nn.gin import init_weights
from gsx.stages.nn.training_loop import torch_stream

LAYERS = 3
LEARNING_RATE = 5e-3
MASK_LEARNING_RATE = 1e-2
"""Learning rate of k1, k2 and T; T is in units of the mean variance of a feature."""
TEMPERATURE = 0.1
"""Width of the sigmoid in the backward pass, in the same units."""


class VarianceMask(nn.Module):
    """The mask as a function of k1, k2 and T.

    ``k1`` and ``k2`` start at 1. T starts at the mean score, so that some features are selected and
    some are not, unless all scores are equal.
    """

    def __init__(self, in_labels: Floats, in_envs: Floats, varying: Array) -> None:
        super().__init__()
        self.in_labels: Tensor
        self.in_envs: Tensor
        self.varying: Tensor
        self.register_buffer("in_labels", torch.from_numpy(in_labels.astype(np.float32)))
        self.register_buffer("in_envs", torch.from_numpy(in_envs.astype(np.float32)))
        self.register_buffer("varying", torch.from_numpy(np.asarray(varying, dtype=np.bool_)))
        self.k = nn.Parameter(torch.ones(2))
        start = (self.in_labels - self.in_envs)[self.varying].mean()
        self.threshold = nn.Parameter(start.clone())

    def forward(self) -> Tensor:
        """Return the mask ``[F]`` of zeros and ones, with the gradient of a sigmoid."""
        score = self.k[0] * self.in_labels - self.k[1] * self.in_envs
        soft = ((score - self.threshold) / TEMPERATURE).sigmoid()
        hard = (score > self.threshold).to(soft.dtype)
        mask: Tensor = (hard + soft - soft.detach()) * self.varying
        return mask


class GraphClassifier(nn.Module):
    """A GIN with mean readout that takes adjacency and readout as matrices."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features if number == 0 else width, width),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Linear(width, width),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            )
            for number in range(LAYERS)
        )
        self.classify = nn.Linear(width, classes)

    def forward(self, rows: Tensor, neighbors: SparseMatrix, readout: SparseMatrix) -> Tensor:
        """Return logits ``[B, classes]`` of node features ``[N, F]``."""
        for layer in self.layers:
            rows = layer(spmm(neighbors, rows))
        logits: Tensor = self.classify(spmm(readout, rows))
        return logits


def learn_paper_mask(
    statistics: FeatureStatistics,
    samples: TrainingSamples,
    ranges: FeatureRanges,
    *,
    steps: int,
    width: int,
    seed: int,
    progress: Callable[[int], None],
) -> LearnedMask:
    """Return the mask after joint training; ``progress`` gets the finished steps."""
    varying = statistics.std > 0
    unit = float(np.square(statistics.std[varying]).mean())
    mask = VarianceMask(
        statistics.label_variance / unit, statistics.environment_variance / unit, varying
    )
    classifier = GraphClassifier(len(varying), width, samples.num_classes)
    init_weights(classifier, torch_stream(seed, "mask", "paper", "weights"))
    optimizer = torch.optim.Adam(
        [
            {"params": classifier.parameters(), "lr": LEARNING_RATE},
            {"params": mask.parameters(), "lr": MASK_LEARNING_RATE},
        ]
    )
    history = []
    for step in range(steps):
        batch = samples.draw(rng(seed, "mask", "paper", "step", step), ranges)
        loss = _loss(batch, mask(), classifier, statistics)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        history.append(_history_row(step, loss, mask, unit))
        progress(step + 1)
    k1, k2 = (float(value) for value in mask.k.detach())
    threshold = float(mask.threshold.detach()) * unit
    score = variance_scores(statistics.label_variance, statistics.environment_variance, k1, k2)
    return LearnedMask(
        k1=k1,
        k2=k2,
        threshold=threshold,
        score=score,
        mask=(score > threshold) & varying,
        history=history,
        trials=[],
    )


def _loss(
    batch: SampledBatch, mask: Tensor, classifier: GraphClassifier, statistics: FeatureStatistics
) -> Tensor:
    """Return the cross-entropy of the labels, for features extrapolated with a mask."""
    scale = np.where(statistics.std > 0, statistics.std, 1.0)
    own, moved = (
        torch.from_numpy(((values - statistics.mean) / scale).astype(np.float32))
        for values in (batch.own, batch.moved)
    )
    cpu = torch.device("cpu")
    neighbors, readout = (
        sparse_matrix(csr_matrix(matrix), cpu) for matrix in (batch.neighbors, batch.readout)
    )
    logits = classifier(own + mask * (moved - own), neighbors, readout)
    return cross_entropy(logits, torch.from_numpy(batch.label))


def _history_row(step: int, loss: Tensor, mask: VarianceMask, unit: float) -> dict[str, Any]:
    k1, k2 = (round(float(value), 6) for value in mask.k.detach())
    selected = int(mask().detach().sum())
    threshold = round(float(mask.threshold.detach()) * unit, 9)
    return {
        "step": step,
        "label_loss": round(float(loss.detach()), 6),
        "k1": k1,
        "k2": k2,
        "threshold": threshold,
        "masked": selected,
    }
