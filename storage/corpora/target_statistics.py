"""Statistics of the targets of a corpus, per split and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.quality_types import Count, Score


class TargetStatistics(TypedDict):
    """Labels of one target: counts of a binary task, or the distribution of a number."""

    target: str
    labels: Count
    missing: Count
    negative: NotRequired[Count]
    positive: NotRequired[Count]
    soft: NotRequired[Count]
    """Labels between 0 and 1."""
    mean: NotRequired[Score]
    std: NotRequired[Score]
    min: NotRequired[Score]
    max: NotRequired[Score]


class TargetGroup(TypedDict):
    """Targets of the graphs, or labelled nodes, of a split and an environment."""

    split: str
    env_id: int
    targets: list[TargetStatistics]


def has_target_values(info: CorpusInfo) -> bool:
    """Return whether targets are numbers or several tasks, which class counts do not describe."""
    return info.task in ("regression", "multitask")


def target_groups(corpus: Corpus, *, by_environment: bool = True) -> list[TargetGroup]:
    """Return the statistics of every target by split, and by environment if requested.

    Reads only the columns of labels. ``env_id`` is -1 if the environment is unknown, and for all
    groups without ``by_environment``.
    """
    split, env, y = target_values(corpus)
    if not by_environment:
        env = np.full_like(env, -1)
    order = np.lexsort((env, split))
    changes = np.flatnonzero((np.diff(split[order]) != 0) | (np.diff(env[order]) != 0)) + 1
    return [
        {
            "split": SPLITS[split[rows[0]]],
            "env_id": int(env[rows[0]]),
            "targets": [
                _statistics(name, y[rows, column], number=corpus.info.task == "regression")
                for column, name in enumerate(corpus.info.outputs)
            ],
        }
        for rows in (np.split(order, changes) if len(order) else [])
    ]


def target_values(corpus: Corpus) -> tuple[Ints, Ints, Array]:
    """Return split, environment and target values of all graphs, or of source nodes in splits."""
    blocks = []
    node = corpus.info.level == "node"
    names = ["node_split", "node_env_id", "node_y"] if node else ["split", "env_id", "y"]
    for index in range(len(corpus.shards)):
        if node:
            table = corpus.read_shard(index)
            table = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
            blocks.append([table.dense("node", name) for name in names])
        else:
            columns = corpus.graph_columns(index, names)
            blocks.append([np.asarray(columns[name]) for name in names])
    split, env, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    kept = split < len(SPLITS) - 1 if node else np.ones(len(split), dtype=bool)
    return split[kept].astype(np.int64), env[kept].astype(np.int64), y[kept].astype(np.float64)


def _statistics(name: str, values: Array, *, number: bool) -> TargetStatistics:
    known = values[~np.isnan(values)]
    row: dict[str, Any] = {
        "target": name, "labels": len(known), "missing": len(values) - len(known),
    }  # fmt: skip
    if not number:
        negative, positive = int((known == 0).sum()), int((known == 1).sum())
        row |= {"negative": negative, "positive": positive}
        row |= {"soft": len(known) - negative - positive}
    elif len(known):
        summary = {"mean": known.mean(), "std": known.std(), "min": known.min(), "max": known.max()}
        row |= {key: round(float(value), 6) for key, value in summary.items()}
    return row  # type: ignore[return-value]


def merge_environments(
    groups: Mapping[tuple[str, int], Sequence[TargetStatistics]],
) -> dict[str, list[TargetStatistics]]:
    """Return statistics of splits from those of their environments, by split and environment."""
    splits: dict[str, list[list[TargetStatistics]]] = {}
    for (split, _), targets in groups.items():
        splits.setdefault(split, []).append(list(targets))
    return {
        split: [_merge(rows) for rows in zip(*environments, strict=True)]
        for split, environments in splits.items()
    }


def _merge(rows: Sequence[TargetStatistics]) -> TargetStatistics:
    counts = ("labels", "missing", "negative", "positive", "soft")
    merged: dict[str, Any] = {"target": rows[0]["target"]}
    merged |= {
        name: sum(row[name] for row in rows)  # type: ignore[literal-required]
        for name in counts
        if name in rows[0]
    }
    known = [row for row in rows if "mean" in row]
    if known:
        weights = np.array([row["labels"] for row in known]) / sum(row["labels"] for row in known)
        means = np.array([row["mean"] for row in known])
        stds = np.array([row["std"] for row in known])
        mean = float(weights @ means)
        merged |= {
            "mean": round(mean, 6),
            "std": round(float(weights @ (stds**2 + (means - mean) ** 2)) ** 0.5, 6),
            "min": min(row["min"] for row in known),
            "max": max(row["max"] for row in known),
        }
    return merged  # type: ignore[return-value]
