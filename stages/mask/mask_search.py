"""Search k1, k2 and T: the mask that hides the environment and preserves the label.

Masks are compared by two small networks on features alone, one for the label and one for the
environment. Every masked feature is replaced by that of another random sample, and the loss of both
networks shows how much of label and environment is lost. Networks are trained on two thirds of the
samples with random masks of all sizes; masks are compared on the other third. Features outside the
mask are replaced at random too, so that one of several redundant features has an effect. Scores far
from those of uninformative features need no comparison: thresholds are limited to values that
chance could produce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import Floats, variance_scores
from gsx.stages.mask.feature_statistics import FeatureStatistics
from gsx.stages.nn.gin import init_weights
from gsx.stages.nn.training_loop import torch_stream

K1_VALUES = (1.0, 2.0, 0.5)
"""Values of k1, with k2 = 1. The first of several equally good masks is taken."""
MAX_THRESHOLD_STD = 4.0
"""Largest distance of the threshold from zero, in standard deviations of a score by chance."""
NUM_THRESHOLDS = 17
HELD_OUT_FOLDS = 3
"""One of this many samples is held out."""
EVALUATED_SAMPLES = 1024
"""Approximate number of held-out samples, with repetitions, on which a mask is evaluated."""
BATCH = 256
SIZE_REWARD = 0.05
"""Reward for masking all features, as a fraction of the label entropy."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedMask:
    """A mask, and how it was learned."""

    k1: float | None
    """None if the mask was given."""
    k2: float | None
    threshold: float | None
    score: Floats
    """``[F]`` variance score of each feature."""
    mask: Array
    """``[F]`` whether a feature is environment-dependent (non-causal)."""
    history: list[dict[str, Any]]
    """Losses of the networks, per step; empty if the mask was given."""
    trials: list[dict[str, Any]]
    """Masks that were compared, by the search only."""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    k1: float
    threshold: float
    mask: Array


def search_mask(
    statistics: FeatureStatistics,
    *,
    steps: int,
    width: int,
    seed: int,
    progress: Callable[[int], None],
) -> LearnedMask:
    """Return the mask with the lowest cost; ``progress`` gets the finished training steps."""
    samples = statistics.samples
    order = rng(seed, "mask", "held-out").permutation(len(samples))
    num_held_out = max(len(order) // HELD_OUT_FOLDS, 1)
    evaluator = _MaskEvaluator(statistics, width, seed)
    history = evaluator.train(order[num_held_out:], steps, seed, progress)
    candidates = list(_candidates(statistics))
    losses = evaluator.evaluate(
        order[:num_held_out], [candidate.mask for candidate in candidates], seed
    )
    num_varying = max(int((statistics.std > 0).sum()), 1)
    trials = [
        {
            "k1": candidate.k1,
            "k2": 1.0,
            "threshold": round(candidate.threshold, 9),
            "masked": int(candidate.mask.sum()),
            "label_unknown": round(label, 6),
            "environment_unknown": round(env, 6),
            "cost": round(label - env - SIZE_REWARD * int(candidate.mask.sum()) / num_varying, 6),
        }
        for candidate, (label, env) in zip(candidates, losses, strict=True)
    ]
    best = min(range(len(trials)), key=lambda number: trials[number]["cost"])
    chosen = candidates[best]
    return LearnedMask(
        k1=chosen.k1,
        k2=1.0,
        threshold=chosen.threshold,
        score=variance_scores(
            statistics.within_labels, statistics.within_environments, chosen.k1, 1.0
        ),
        mask=chosen.mask,
        history=history,
        trials=trials,
    )


def _candidates(statistics: FeatureStatistics) -> Iterator[_Candidate]:
    """Yield distinct masks, first those with equal weights and a threshold near zero."""
    yielded = set()
    levels = sorted(
        np.linspace(-MAX_THRESHOLD_STD, MAX_THRESHOLD_STD, NUM_THRESHOLDS),
        key=lambda level: (abs(level), level),
    )
    for k1 in K1_VALUES:
        score = variance_scores(statistics.within_labels, statistics.within_environments, k1, 1.0)
        for level in levels:
            # An uninformative feature has variance shares of 1, so its score is k1 - k2.
            threshold = k1 - 1.0 + float(level) * chance_std(statistics, k1)
            mask = (score > threshold) & (statistics.std > 0)
            if mask.tobytes() not in yielded:
                yielded.add(mask.tobytes())
                yield _Candidate(k1, threshold, mask)


def chance_std(statistics: FeatureStatistics, k1: float) -> float:
    """Return the standard deviation of the score of an uninformative feature."""
    labels, envs = statistics.num_classes - 1, statistics.num_environments - 1
    return float(np.sqrt(2 * (k1**2 * labels + envs)) / max(statistics.num_samples, 1))


class _MaskEvaluator:
    """Two networks on features alone: one predicts labels, one environments."""

    def __init__(self, statistics: FeatureStatistics, width: int, seed: int) -> None:
        samples = statistics.samples
        self.samples = samples
        self.center = statistics.mean
        self.scale = np.where(statistics.std > 0, statistics.std, 1.0)
        self.targets = [_class_indices(samples.label), _class_indices(samples.env)]
        features = len(statistics.mean)
        self.networks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features, width), nn.ReLU(), nn.Linear(width, int(target.max()) + 1)
            )
            for target in self.targets
        )
        init_weights(self.networks, torch_stream(seed, "mask", "weights"))

    def train(
        self, rows: Ints, steps: int, seed: int, progress: Callable[[int], None]
    ) -> list[dict[str, Any]]:
        """Train both networks on some of the samples and return their losses."""
        optimizer = torch.optim.Adam(self.networks.parameters(), lr=5e-3, weight_decay=1e-3)
        history = []
        for step in range(steps):
            stream = rng(seed, "mask", "step", step)
            batch = stream.choice(rows, min(BATCH, len(rows)), replace=False)
            inputs = self._corrupt(batch, rows, stream)[0]
            losses = [
                cross_entropy(network(inputs), target[batch])
                for network, target in zip(self.networks, self.targets, strict=True)
            ]
            optimizer.zero_grad()
            (losses[0] + losses[1]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            label, env = (round(float(loss.detach()), 6) for loss in losses)
            history.append({"step": step, "label_loss": label, "environment_loss": env})
            progress(step + 1)
        return history

    @torch.no_grad()
    def evaluate(self, rows: Ints, masks: list[Array], seed: int) -> list[tuple[float, float]]:
        """Return for each mask the losses of label and environment, relative to their entropies.

        0 means that the target is fully predicted, 1 (the maximum) that nothing is predicted.
        """
        # Names of random streams are part of the results: they stay as they are.
        stream = rng(seed, "mask", "judged")
        evaluated = np.tile(rows, max(EVALUATED_SAMPLES // len(rows), 1))[:EVALUATED_SAMPLES]
        total = np.zeros((len(masks), 2))
        for start in range(0, len(evaluated), BATCH):
            batch = evaluated[start : start + BATCH]
            inputs, others = self._corrupt(batch, rows, stream)
            for number, mask in enumerate(masks):
                masked = torch.where(torch.from_numpy(mask), others, inputs)
                pairs = zip(self.networks, self.targets, strict=True)
                for index, (network, target) in enumerate(pairs):
                    loss = cross_entropy(network(masked), target[batch], reduction="sum")
                    total[number, index] += float(loss)
        entropies = [max(_entropy(target[evaluated].numpy()), 1e-9) for target in self.targets]
        losses = np.minimum(total / len(evaluated) / entropies, 1.0)
        return [(float(label), float(env)) for label, env in losses]

    def _corrupt(
        self, batch: Ints, rows: Ints, stream: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return samples with random features taken from other samples, and those other samples.

        The fraction of replaced features is drawn for every sample, uniformly in 0..1.
        """
        others = self._standardized(stream.choice(rows, len(batch)))
        replaced = stream.random(others.shape, dtype=np.float32) < stream.random((len(batch), 1))
        inputs = torch.where(torch.from_numpy(replaced), others, self._standardized(batch))
        return inputs, others

    def _standardized(self, rows: Ints) -> Tensor:
        """Return some samples, dense, with mean 0 and variance 1 per feature over all samples."""
        features = self.samples.features[rows]
        values = features.toarray() if isinstance(features, csr_matrix) else features
        return torch.from_numpy(((values - self.center) / self.scale).astype(np.float32))


def _class_indices(values: Ints) -> Tensor:
    return torch.from_numpy(np.unique(values, return_inverse=True)[1])


def _entropy(values: Ints) -> float:
    share = np.bincount(values) / len(values)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())
