"""Scores and training curves of the classifiers that were trained on a corpus or its source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from gsx.stages.train.config import CLASSICAL
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_json
from gsx.storage.corpora.quality_types import Score
from gsx.storage.corpora.summary import (
    ModelQuality,
    Name,
    TrainingOptions,
    read_options,
    selected_rule,
)

THIS_CORPUS, SOURCE_CORPUS, OTHER_CORPUS = "this corpus", "its source", "another corpus"
"""Names of the training corpus of a model."""
MAX_ROWS = 12
_IGNORED_OPTIONS = {"seed", "source", "device"}
"""Options in which models of one row may differ."""
_TITLE_OPTIONS = {"learner", "backbone", "epochs", "augmented", *_IGNORED_OPTIONS}
"""Options that the title contains, and options without influence on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModels:
    """Models that differ only in their seed."""

    trained_on: str
    """Name of their training corpus."""
    name: str
    config: Mapping[str, Any]
    scores: tuple[Mapping[str, float], ...]
    """Scores by split of every model, at the epoch that its selection rule reports."""
    metric: str
    curves: Sequence[Mapping[str, float]]
    """Scores per epoch of one model."""

    def text(self, split: str) -> str:
        """Return mean ± standard deviation of a score; three digits unless it is a percentage."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        if not values:
            return "-"
        digits = 1 if self.metric in ("accuracy", "roc_auc") else 3
        spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{mean(values):.{digits}f}{spread}"

    def rank(self, split: str) -> float:
        """Return a sort key: best mean first, models without a score last."""
        values = [score[split] for score in self.scores if score.get(split) is not None]
        if not values:
            return float("inf")
        return mean(values) if self.metric == "rmse" else -mean(values)


def model_title(config: Mapping[str, Any]) -> str:
    """Return algorithm, backbone and number of epochs of a classifier."""
    if config["backbone"] in CLASSICAL:
        return f"linear model, {config['backbone']}"
    return f"{config['learner']}, {config['backbone']}, {config['epochs']} epochs"


def read_models(models: Sequence[tuple[str, Artifact]]) -> list[TrainedModels]:
    """Read scores and curves of models; models that differ only in their seed form one row."""
    groups: dict[str, list[tuple[str, Artifact, ModelQuality]]] = {}
    for trained_on, artifact in models:
        scores = read_json(artifact.location, "scores.json", ModelQuality, limit=1 << 20)
        read_options(artifact.manifest, TrainingOptions)
        config = {k: v for k, v in artifact.manifest.config.items() if k not in _IGNORED_OPTIONS}
        key = json.dumps([trained_on, artifact.manifest.stage_version, config], sort_keys=True)
        groups.setdefault(key, []).append((trained_on, artifact, scores))
    names = _distinct_titles([group[0][1].manifest.config for group in groups.values()])
    trained = [
        _merge_seeds(group, name) for group, name in zip(groups.values(), names, strict=True)
    ]
    return sorted(trained, key=lambda row: row.rank("ood_val"))[:MAX_ROWS]


def _distinct_titles(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return titles; equal titles get the options that differ appended."""
    titles = [model_title(config) for config in configs]
    names = []
    for title, config in zip(titles, configs, strict=True):
        same_title = [
            other_config
            for other_config, other_title in zip(configs, titles, strict=True)
            if other_title == title
        ]
        differing = sorted(
            name
            for name in config
            if name not in _TITLE_OPTIONS
            and any(
                other_config.get(name, config[name]) != config[name] for other_config in same_title
            )
        )
        names.append(", ".join([title, *(_option(name, config[name]) for name in differing)]))
    return names


def _option(name: str, value: object) -> str:
    text = "/".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.replace('_', ' ')} {text}"


def _merge_seeds(group: Sequence[tuple[str, Artifact, ModelQuality]], name: str) -> TrainedModels:
    trained_on, artifact, scores = group[0]
    selected: list[Any] = [
        quality["selection"].get(selected_rule(quality), {}) for _, _, quality in group
    ]
    source_only = trained_on == THIS_CORPUS and not artifact.manifest.config.get("augmented", True)
    return TrainedModels(
        trained_on=f"{trained_on}, source only" if source_only else trained_on,
        name=name,
        config=artifact.manifest.config,
        scores=tuple(selected),
        metric=scores["metric"],
        curves=read_json(artifact.location, "curves.json", list[dict[Name, Score]]),
    )
