"""What a mask says, in words and numbers, and how right it is where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.mask.feature_ranges import COLOR_DATASETS
from gsx.stages.mask.feature_statistics import FeatureStatistics
from gsx.stages.mask.mask_search import LearnedMask

MAX_NAMES = 12
"""Features that are named in a sentence."""


def feature_names(info: CorpusInfo) -> list[str]:
    """Return the name of every feature: its own where it has one, else its number."""
    words = None if info.sparse else info.column("node_feat").features
    if words:
        return [feature.name for feature in words]
    return [str(number) for number in range(info.num_features)]


def features_by_role(evidence: FeatureStatistics, learned: LearnedMask, names: list[str]) -> dict[str, list[str]]:
    """Return the names of features by what they are called, the surest first."""
    order = np.argsort(-learned.score, kind="stable")
    constant = evidence.std == 0

    def chosen(wanted: Array) -> list[str]:
        return [names[number] for number in order[wanted[order]]]

    return {
        "non_causal": chosen(learned.mask),
        "kept": chosen(~learned.mask & ~constant)[::-1],
        "constant": chosen(constant),
    }


def summary_sentence(lists: dict[str, list[str]], name: str) -> str:
    """Say which features are called non-causal."""
    found, total = lists["non_causal"], sum(map(len, lists.values()))
    if not found:
        return f"No feature of {name} is called non-causal: nothing to extrapolate."
    some = ", ".join(found[:MAX_NAMES]) + (", …" if len(found) > MAX_NAMES else "")
    rest = f"{len(lists['kept'])} are kept as they are"
    if lists["constant"]:
        rest += f", {len(lists['constant'])} never vary"
    return (
        f"{len(found)} of {total} features of {name} are called non-causal, because environments "
        f"explain them and labels do not: {some}; {rest}."
    )


def warnings(lists: dict[str, list[str]], name: str) -> tuple[str, ...]:
    """Return what a user should know of a mask that chooses everything or nothing."""
    if not lists["non_causal"]:
        return (summary_sentence(lists, name),)
    if not lists["kept"]:
        return (
            f"every feature of {name} that varies is called non-causal: labels must be told from "
            "structure, or from what features have in common between nodes",
        )
    return ()


def quality(evidence: FeatureStatistics, learned: LearnedMask, info: CorpusInfo) -> dict[str, Any]:
    """Return numbers about a mask; the truth, where a dataset has one, is used here alone."""
    found: dict[str, Any] = {
        "features": len(learned.mask),
        "non_causal": int(learned.mask.sum()),
        "constant": int((evidence.std == 0).sum()),
        "k1": learned.k1,
        "k2": learned.k2,
        "threshold": round(learned.threshold, 9),
        "samples": evidence.total,
    }
    if info.name in COLOR_DATASETS:
        found["truth"] = selection_scores(learned.mask, np.ones(len(learned.mask), dtype=bool))
    return found


def selection_scores(mask: Array, truth: Array) -> dict[str, float]:
    """Return precision, recall and F1 of the features called non-causal."""
    both = float((mask & truth).sum())
    return {
        "precision": round(both / max(float(mask.sum()), 1.0), 6),
        "recall": round(both / max(float(truth.sum()), 1.0), 6),
        "f1": round(2 * both / max(float(mask.sum() + truth.sum()), 1.0), 6),
    }
