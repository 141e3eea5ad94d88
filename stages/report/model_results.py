"""What classifiers make of a corpus: scores and curves of the models that were trained on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from gsx.storage.artifacts.store import Artifact

HERE, BEFORE, ELSEWHERE = "this corpus", "its source", "another corpus"
"""What a model was trained on."""
MOST_ROWS = 12
_AWAY = {"seed", "source", "device"}
"""Options that do not make two trainings different ones."""
_SAID = {"learner", "backbone", "epochs", "augmented", *_AWAY}
"""Options that a row tells anyway, or that none needs."""


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
        """Return mean and spread of a score; those that are no percentages keep their digits."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        if not values:
            return "-"
        digits = 1 if self.metric in ("accuracy", "roc_auc") else 3
        spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{mean(values):.{digits}f}{spread}"

    def rank(self, split: str) -> float:
        """Return what sorts the best mean first; those without a score come last."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        if not values:
            return float("inf")
        return mean(values) if self.metric == "rmse" else -mean(values)


def title_of(config: Mapping[str, Any]) -> str:
    """Say in a few words what a classifier is."""
    return f"{config['learner']}, {config['backbone']}, {config['epochs']} epochs"


def read_models(models: Sequence[tuple[str, Artifact]]) -> list[Trained]:
    """Read scores and curves of models, by what they were trained on; seeds are put together."""
    found: dict[str, list[tuple[str, Artifact, dict[str, Any]]]] = {}
    for where, artifact in models:
        scores = json.loads(artifact.location.read_bytes("scores.json", limit=1 << 20))
        config = {k: v for k, v in artifact.manifest.config.items() if k not in _AWAY}
        key = json.dumps([where, artifact.manifest.stage_version, config], sort_keys=True)
        found.setdefault(key, []).append((where, artifact, scores))
    names = _names([group[0][1].manifest.config for group in found.values()])
    trained = [_together(group, name) for group, name in zip(found.values(), names, strict=True)]
    return sorted(trained, key=lambda each: each.rank("ood_val"))[:MOST_ROWS]


def _names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return titles; those of trainings that read alike also say the options that differ."""
    titles = [title_of(config) for config in configs]
    found = []
    for title, config in zip(titles, configs, strict=True):
        alike = [each for each, other in zip(configs, titles, strict=True) if other == title]
        differ = sorted(
            name
            for name in config
            if name not in _SAID
            and any(each.get(name, config[name]) != config[name] for each in alike)
        )
        found.append(", ".join([title, *(_option(name, config[name]) for name in differ)]))
    return found


def _option(name: str, value: object) -> str:
    words = "/".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.replace('_', ' ')} {words}"


def _together(group: Sequence[tuple[str, Artifact, dict[str, Any]]], name: str) -> Trained:
    where, artifact, scores = group[0]
    selections = [each["selection"] for _, _, each in group]
    chosen = [each.get("ood_val") or each["last"] for each in selections]
    alone = where == HERE and not artifact.manifest.config.get("augmented", True)
    return Trained(
        where=f"{where}, source alone" if alone else where,
        name=name,
        config=artifact.manifest.config,
        scores=tuple(chosen),
        metric=scores["metric"],
        curves=json.loads(artifact.location.read_bytes("curves.json", limit=64 << 20)),
    )
