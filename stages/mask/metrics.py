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
    names = () if info.sparse else info.column("node_feat").value_names
    return list(names or map(str, range(info.num_features)))


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


def summary_sentence(roles: dict[str, list[str]], name: str, rule: str = "search") -> str:
    """Return a sentence that lists the non-causal features. It is part of the manifest."""
    selected, total = roles["non_causal"], sum(map(len, roles.values()))
    if not selected:
        return f"No feature of {name} is non-causal, so there is nothing to extrapolate."
    listed = ", ".join(selected[:MAX_NAMES]) + (", …" if len(selected) > MAX_NAMES else "")
    others = f"{len(roles['kept'])} kept"
    if roles["constant"]:
        others += f", {len(roles['constant'])} constant"
    of_features = f"{len(selected)} of {total} features of {name}"
    if rule == "given":
        return f"{of_features} were selected by hand ({listed}); {others}."
    if rule == "paper":
        return (
            f"{of_features} are non-causal by the paper's rule: their variance score exceeds the "
            f"threshold that was trained with a classifier ({listed}); {others}."
        )
    return (
        f"{of_features} are non-causal: they depend on the environment and not on the label "
        f"({listed}); {others}."
    )


def warnings(roles: dict[str, list[str]], name: str, rule: str = "search") -> tuple[str, ...]:
    """Return warnings about a mask of all features or of none. They are part of the manifest."""
    if not roles["non_causal"]:
        return (summary_sentence(roles, name),)
    if not roles["kept"] and rule != "given":
        return (
            f"all varying features of {name} are non-causal, so a model must predict labels from "
            "structure, or from relations between the features of different nodes",
        )
    return ()


def quality(
    statistics: FeatureStatistics, learned: LearnedMask, info: CorpusInfo, rule: str = "search"
) -> dict[str, Any]:
    """Return metrics of a mask. The true mask of a dataset, if known, is used only here."""
    metrics: dict[str, Any] = {
        "features": len(learned.mask),
        "non_causal": int(learned.mask.sum()),
        "constant": int((statistics.std == 0).sum()),
    }
    if learned.k1 is not None and learned.k2 is not None and learned.threshold is not None:
        metrics |= {"k1": learned.k1, "k2": learned.k2, "threshold": round(learned.threshold, 9)}
    metrics["samples"] = statistics.num_samples
    if rule != "search":
        metrics["rule"] = rule
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
