"""What classifiers make of a corpus: scores and curves of the models that were trained on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from gsx.storage.store import Artifact

MOST_ROWS = 12
_AWAY = {"seed", "source"}
"""Options that do not make two trainings different ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Models that differ in their seed alone."""

    where: str
    """What they were trained on."""
    name: str
    config: Mapping[str, Any]
    scores: tuple[Mapping[str, float], ...]
    """Scores by split, of every model, at the epoch that OOD validation selects."""
    metric: str
    curves: Sequence[Mapping[str, float]]
    """Of one of them."""

    def text(self, split: str) -> str:
        """Return mean and spread of a score."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        if not values:
            return "-"
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        return f"{mean(values):.1f}{spread}"

    def best(self, split: str) -> float:
        """Return the mean of a score, very low without one."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        return mean(values) if values else -1e9


def read_models(models: Sequence[tuple[str, Artifact]]) -> list[Trained]:
    """Read scores and curves of models, by what they were trained on; seeds are put together."""
    found: dict[str, list[tuple[str, Artifact, dict[str, Any]]]] = {}
    for where, artifact in models:
        scores = json.loads(artifact.place.read_bytes("scores.json", limit=1 << 20))
        config = {k: v for k, v in artifact.manifest.config.items() if k not in _AWAY}
        key = json.dumps([where, artifact.manifest.stage_version, config], sort_keys=True)
        found.setdefault(key, []).append((where, artifact, scores))
    trained = [_together(group) for group in found.values()]
    order = sorted(trained, key=lambda each: -each.best("ood_val"))
    return order[:MOST_ROWS]


def _together(group: Sequence[tuple[str, Artifact, dict[str, Any]]]) -> Trained:
    where, artifact, scores = group[0]
    config = artifact.manifest.config
    selections = [each["selection"] for _, _, each in group]
    chosen = [each.get("ood_val") or each["last"] for each in selections]
    return Trained(
        where=where,
        name=f"{config['learner']}, {config['backbone']}, {config['epochs']} epochs",
        config=config,
        scores=tuple(chosen),
        metric=scores["metric"],
        curves=json.loads(artifact.place.read_bytes("curves.json", limit=64 << 20)),
    )
