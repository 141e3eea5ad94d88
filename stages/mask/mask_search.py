"""Learn k1, k2 and T: which mask hides the environment and leaves the label to be told.

A mask is judged by what two small networks still tell from features alone when every masked feature
is taken from another sample at random: one tells the label, one the environment. They learn on two
thirds of the samples under masks of any size; masks are compared on the other third. Features that
are not masked are taken from elsewhere at random too, so that one of several features that
say the same is missed. Scores far from what chance gives need no judge: the threshold stays among
those that chance could give.
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
"""k1 over k2, what is plainest first: of masks that are equally good the first is taken."""
MAX_THRESHOLD_STD = 4.0
"""How far from zero the threshold may lie, in standard deviations of a score by chance."""
NUM_THRESHOLDS = 17
HELD_OUT_FRACTION = 3
"""One of so many samples is held out."""
EVALUATED_SAMPLES = 1024
"""Held-out samples, about, a mask is judged on."""
BATCH = 256
SIZE_REWARD = 0.05
"""What masking all features is worth, in shares of what can be known of the label."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedMask:
    """A mask and how it came."""

    k1: float
    k2: float
    threshold: float
    score: Floats
    """``[F]``."""
    mask: Array
    """``[F]`` features called non-causal."""
    history: list[dict[str, Any]]
    """Losses of the networks."""
    trials: list[dict[str, Any]]
    """Masks that were compared."""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    k1: float
    threshold: float
    mask: Array


def search_mask(
    evidence: FeatureStatistics, *, steps: int, width: int, seed: int, progress: Callable[[int], None]
) -> LearnedMask:
    """Return the best mask; ``progress`` counts steps."""
    samples = evidence.samples
    order = rng(seed, "mask", "held-out").permutation(len(samples))
    held = max(len(order) // HELD_OUT_FRACTION, 1)
    judges = _MaskEvaluator(evidence, width, seed)
    history = judges.fit(order[held:], steps, seed, progress)
    trials = list(_candidates(evidence))
    told = judges.told(order[:held], [trial.mask for trial in trials], seed)
    varying = max(int((evidence.std > 0).sum()), 1)
    rows = [
        {
            "k1": trial.k1,
            "k2": 1.0,
            "threshold": round(trial.threshold, 9),
            "masked": int(trial.mask.sum()),
            "label_unknown": round(label, 6),
            "environment_unknown": round(env, 6),
            "cost": round(label - env - SIZE_REWARD * int(trial.mask.sum()) / varying, 6),
        }
        for trial, (label, env) in zip(trials, told, strict=True)
    ]
    best = min(range(len(rows)), key=lambda number: rows[number]["cost"])
    chosen = trials[best]
    return LearnedMask(
        k1=chosen.k1,
        k2=1.0,
        threshold=chosen.threshold,
        score=variance_scores(evidence.in_labels, evidence.in_envs, chosen.k1, 1.0),
        mask=chosen.mask,
        history=history,
        trials=rows,
    )


def _candidates(evidence: FeatureStatistics) -> Iterator[_Candidate]:
    """Yield masks that differ, those of equal weights and a threshold near zero first."""
    seen = set()
    levels = sorted(np.linspace(-MAX_THRESHOLD_STD, MAX_THRESHOLD_STD, NUM_THRESHOLDS), key=lambda level: (abs(level), level))
    for k1 in K1_VALUES:
        score = variance_scores(evidence.in_labels, evidence.in_envs, k1, 1.0)
        for level in levels:
            # A feature that tells nothing of either has shares of 1 and the score k1 - k2.
            threshold = k1 - 1.0 + float(level) * chance_std(evidence, k1)
            mask = (score > threshold) & (evidence.std > 0)
            if mask.tobytes() not in seen:
                seen.add(mask.tobytes())
                yield _Candidate(k1, threshold, mask)


def chance_std(evidence: FeatureStatistics, k1: float) -> float:
    """Return the standard deviation of a score where labels and environments mean nothing."""
    labels, envs = evidence.classes - 1, evidence.envs - 1
    return float(np.sqrt(2 * (k1**2 * labels + envs)) / max(evidence.total, 1))


class _MaskEvaluator:
    """Two networks on features alone: one tells labels, one environments."""

    def __init__(self, evidence: FeatureStatistics, width: int, seed: int) -> None:
        samples = evidence.samples
        self.samples = samples
        self.center = evidence.mean
        self.scale = np.where(evidence.std > 0, evidence.std, 1.0)
        self.targets = [_class_indices(samples.label), _class_indices(samples.env)]
        features = len(evidence.mean)
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features, width), nn.ReLU(), nn.Linear(width, int(target.max()) + 1)
            )
            for target in self.targets
        )
        init_weights(self.nets, torch_stream(seed, "mask", "weights"))

    def fit(
        self, rows: Ints, steps: int, seed: int, progress: Callable[[int], None]
    ) -> list[dict[str, Any]]:
        """Train both networks on some of the samples, and return their losses."""
        optimizer = torch.optim.Adam(self.nets.parameters(), lr=5e-3, weight_decay=1e-3)
        history = []
        for step in range(steps):
            stream = rng(seed, "mask", "step", step)
            batch = stream.choice(rows, min(BATCH, len(rows)), replace=False)
            shown = self._hidden(batch, rows, stream)[0]
            losses = [
                cross_entropy(net(shown), target[batch])
                for net, target in zip(self.nets, self.targets, strict=True)
            ]
            optimizer.zero_grad()
            (losses[0] + losses[1]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            label, env = (round(float(loss.detach()), 6) for loss in losses)
            history.append({"step": step, "label_loss": label, "environment_loss": env})
            progress(step + 1)
        return history

    @torch.no_grad()
    def told(self, rows: Ints, masks: list[Array], seed: int) -> list[tuple[float, float]]:
        """Return, per mask, the shares of label and environment that stay unknown, at most 1."""
        stream = rng(seed, "mask", "judged")
        judged = np.tile(rows, max(EVALUATED_SAMPLES // len(rows), 1))[:EVALUATED_SAMPLES]
        total = np.zeros((len(masks), 2))
        for start in range(0, len(judged), BATCH):
            batch = judged[start : start + BATCH]
            shown, others = self._hidden(batch, rows, stream)
            for number, mask in enumerate(masks):
                masked = torch.where(torch.from_numpy(mask), others, shown)
                for which, (net, target) in enumerate(zip(self.nets, self.targets, strict=True)):
                    loss = cross_entropy(net(masked), target[batch], reduction="sum")
                    total[number, which] += float(loss)
        known = [max(_entropy(target[judged].numpy()), 1e-9) for target in self.targets]
        shares = np.minimum(total / len(judged) / known, 1.0)
        return [(float(label), float(env)) for label, env in shares]

    def _hidden(
        self, batch: Ints, rows: Ints, stream: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return samples, some of their features those of others, and the others.

        How many features of a sample are hidden is drawn for every sample, from none to all.
        """
        others = self._rows(stream.choice(rows, len(batch)))
        hidden = stream.random(others.shape, dtype=np.float32) < stream.random((len(batch), 1))
        return torch.where(torch.from_numpy(hidden), others, self._rows(batch)), others

    def _rows(self, rows: Ints) -> Tensor:
        """Return some samples, dense, each feature with mean 0 and variance 1 over all."""
        features = self.samples.features[rows]
        values = features.toarray() if isinstance(features, csr_matrix) else features
        return torch.from_numpy(((values - self.center) / self.scale).astype(np.float32))


def _class_indices(values: Ints) -> Tensor:
    return torch.from_numpy(np.unique(values, return_inverse=True)[1])


def _entropy(values: Ints) -> float:
    share = np.bincount(values) / len(values)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())
