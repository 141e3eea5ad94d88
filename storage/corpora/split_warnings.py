"""Warnings about splits: small test splits, and domains that predict the class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gsx.ragged import Array
from gsx.schema import CorpusInfo

MIN_EXAMPLES = 30
"""Examples of a class, or of a split without classes, below which a test split gets a warning."""
TEST_SPLITS = ("id_test", "ood_test")
TYPICAL_AUC = 0.75
MIN_PREDICTED = 0.3
"""Balanced accuracy of predictions from the environment, as a fraction of the way from chance to 1,
from which environments predict the class."""
MIN_PER_CELL = 10
"""Training items per class and environment, on average, from which that is not due to chance."""
MIN_LABEL_SHIFT = 0.25
"""Total variation distance of class frequencies from which a split has other class frequencies."""
MIN_SPLIT = 20
"""Items of an OOD split from which its class frequencies are compared."""
_Z = 1.96


def small_split_warnings(info: CorpusInfo, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a warning per test split with few examples of a class, and the interval to expect.

    ``groups`` are counts of graphs, or of nodes, by split and environment.
    """
    for split in TEST_SPLITS:
        members = [group for group in groups if group["split"] == split]
        if not members:
            continue
        total = sum(group["count"] for group in members)
        items = info.level if total == 1 else f"{info.level}s"
        labels = [sum(column) for column in zip(*(row["labels"] for row in members), strict=True)]
        if info.task not in ("classification", "binary") or not sum(labels):
            if total < MIN_EXAMPLES:
                score = "any score"
                if info.task == "regression":
                    score = f"RMSE, ±{_Z / math.sqrt(2 * total):.0%} of its value"
                yield f"{split} has only {total:,} {items}: expect a wide 95 % interval of {score}"
            continue
        least = min(range(len(labels)), key=labels.__getitem__)
        if labels[least] >= MIN_EXAMPLES:
            continue
        names = info.outputs if info.task == "classification" else ("0", "1")
        yield (
            f"{split} has only {labels[least]:,} of {sum(labels):,} {items} of class "
            f"`{names[least]}`: {_interval(info, labels, least)}"
        )


def small_task_warnings(info: CorpusInfo, values: Mapping[str, Array]) -> Iterator[str]:
    """Yield a warning per test split with targets that have few examples of a class.

    ``values`` are the labels ``[n, C]`` of several binary tasks by split; NaN is missing.
    """
    for split in TEST_SPLITS:
        if info.task != "multitask" or split not in values:
            continue
        counts = [
            [int((column == class_).sum()) for class_ in (0, 1)] for column in values[split].T
        ]
        small = [task for task, labels in enumerate(counts) if min(labels) < MIN_EXAMPLES]
        if not small:
            continue
        task = min(small, key=lambda number: min(counts[number]))
        least = min((0, 1), key=counts[task].__getitem__)
        yield (
            f"{split} has fewer than {MIN_EXAMPLES} examples of a class in {len(small):,} of "
            f"{len(counts):,} targets, such as {counts[task][least]:,} of {sum(counts[task]):,} "
            f"with `{info.outputs[task]}` = {least}: {_interval(info, counts[task], least)}"
        )


def _interval(info: CorpusInfo, labels: Sequence[int], least: int) -> str:
    """Return the width of the 95 % interval to expect."""
    if not labels[least]:
        return "its score is undefined" if info.metric == "roc_auc" else "it is not tested"
    if info.metric == "roc_auc" and len(labels) == 2:
        half = _Z * auc_standard_error(labels[1], labels[0])
        return f"expect a 95 % interval of about ±{100 * min(half, 0.5):.0f} points of ROC-AUC"
    half = _Z * math.sqrt(0.25 / labels[least])
    return (
        f"expect a 95 % interval of up to ±{100 * min(half, 0.5):.0f} points of the accuracy on "
        "this class"
    )


def auc_standard_error(positives: int, negatives: int, auc: float = TYPICAL_AUC) -> float:
    """Return the standard error of a ROC-AUC (Hanley and McNeil, 1982)."""
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (positives - 1) * (one - auc**2) + (negatives - 1) * (two - auc**2)
    return math.sqrt(variance / (positives * negatives))


def label_shift_warnings(info: CorpusInfo, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield warnings about domains that predict the class.

    Two signs: training environments have different class frequencies, or an OOD split has others
    than training. ``groups`` are counts by split and environment.
    """
    if info.task not in ("classification", "binary"):
        return
    is_source = {env.id for env in info.environments if env.origin == "source"}
    train = [row for row in groups if row["split"] == "train" and row["env_id"] in is_source]
    names = info.outputs if info.task == "classification" else ("0", "1")
    total = _label_totals(train)
    if sum(map(bool, total)) < 2:
        return
    accuracy, chance = environment_accuracy([row["labels"] for row in train])
    items = f"training {info.level}s"
    enough = sum(total) >= MIN_PER_CELL * len(train) * sum(map(bool, total))
    if enough and accuracy >= chance + MIN_PREDICTED * (1 - chance):
        yield (
            f"environments predict the class: knowing only the {info.domain} group of {items} "
            f"gives a balanced accuracy of {accuracy:.0%} (chance {chance:.0%}), so a model can "
            "learn the domain instead of the label's cause"
        )
    for split in ("ood_val", "ood_test"):
        labels = _label_totals([row for row in groups if row["split"] == split])
        if sum(labels) < MIN_SPLIT:
            continue
        change = [a / sum(labels) - b / sum(total) for a, b in zip(labels, total, strict=True)]
        if sum(map(abs, change)) / 2 >= MIN_LABEL_SHIFT:
            most = max(range(len(change)), key=[*map(abs, change)].__getitem__)
            yield (
                f"{split} has other class frequencies than training: "
                f"{labels[most] / sum(labels):.0%} of class `{names[most]}`, and "
                f"{total[most] / sum(total):.0%} in training. Scores of the splits are hard to "
                "compare"
            )


def _label_totals(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return [sum(column) for column in zip(*(row["labels"] for row in rows), strict=True)]


def environment_accuracy(labels: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return the best balanced accuracy of predicting the class from the environment, and chance.

    ``labels`` ``[E][C]`` count the classes of every environment. Classes without items are left
    out.
    """
    columns = [column for column in zip(*labels, strict=True) if sum(column)]
    if not columns:
        return 1.0, 1.0
    shares = [[count / sum(column) for count in column] for column in columns]
    best = sum(max(of_environment) for of_environment in zip(*shares, strict=True))
    return best / len(columns), 1 / len(columns)
