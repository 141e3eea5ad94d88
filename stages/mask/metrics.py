"""Summary and quality of a mask, including its accuracy if the true mask is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.mask.feature_ranges import COLOR_DATASETS
from gsx.stages.mask.feature_statistics import FeatureStatistics
from gsx.stages.mask.mask_search import LearnedMask

MAX_NAMES = 12
"""Feature names in the summary sentence."""


def feature_names(info: CorpusInfo) -> list[str]:
    """Return the name of every feature, or its number if it has no name."""
    features = None if info.sparse else info.column("node_feat").features
    if features:
        return [feature.name for feature in features]
    return [str(number) for number in range(info.num_features)]


def features_by_role(
    statistics: FeatureStatistics, learned: LearnedMask, names: list[str]
) -> dict[str, list[str]]:
    """Return the names of non-causal, kept and constant features, most certain first."""
    order = np.argsort(-learned.score, kind="stable")
    is_constant = statistics.std == 0

    def select(chosen: Array) -> list[str]:
        return [names[number] for number in order[chosen[order]]]

    return {
        "non_causal": select(learned.mask),
        "kept": select(~learned.mask & ~is_constant)[::-1],
        "constant": select(is_constant),
    }


def summary_sentence(roles: dict[str, list[str]], name: str) -> str:
    """Return a sentence that lists the non-causal features. It is part of the manifest."""
    selected, total = roles["non_causal"], sum(map(len, roles.values()))
    if not selected:
        return f"No feature of {name} is called non-causal: nothing to extrapolate."
    listed = ", ".join(selected[:MAX_NAMES]) + (", …" if len(selected) > MAX_NAMES else "")
    others = f"{len(roles['kept'])} are kept as they are"
    if roles["constant"]:
        others += f", {len(roles['constant'])} never vary"
    return (
        f"{len(selected)} of {total} features of {name} are called non-causal, because "
        f"environments explain them and labels do not: {listed}; {others}."
    )


def warnings(roles: dict[str, list[str]], name: str) -> tuple[str, ...]:
    """Return warnings about a mask of all features or of none. They are part of the manifest."""
    if not roles["non_causal"]:
        return (summary_sentence(roles, name),)
    if not roles["kept"]:
        return (
            f"every feature of {name} that varies is called non-causal: labels must be told from "
            "structure, or from what features have in common between nodes",
        )
    return ()


def quality(
    statistics: FeatureStatistics, learned: LearnedMask, info: CorpusInfo
) -> dict[str, Any]:
    """Return metrics of a mask. The true mask of a dataset, if known, is used only here."""
    metrics: dict[str, Any] = {
        "features": len(learned.mask),
        "non_causal": int(learned.mask.sum()),
        "constant": int((statistics.std == 0).sum()),
        "k1": learned.k1,
        "k2": learned.k2,
        "threshold": round(learned.threshold, 9),
        "samples": statistics.num_samples,
    }
    if info.name in COLOR_DATASETS:
        metrics["truth"] = selection_scores(learned.mask, np.ones(len(learned.mask), dtype=bool))
    return metrics


def selection_scores(mask: Array, truth: Array) -> dict[str, float]:
    """Return precision, recall and F1 of the features selected as non-causal."""
    both = float((mask & truth).sum())
    return {
        "precision": round(both / max(float(mask.sum()), 1.0), 6),
        "recall": round(both / max(float(truth.sum()), 1.0), 6),
        "f1": round(2 * both / max(float(mask.sum() + truth.sum()), 1.0), 6),
    }
