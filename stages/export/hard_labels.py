"""What all layouts of plain arrays share: graphs of a split, and labels other tools can hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsx.pyg import densify_features
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.export.request import Given, LabelMode
from gsx.table import GraphTable


def parts(given: Given, split: str | None = None) -> Iterator[tuple[GraphTable, Array]]:
    """Yield graphs, row group by row group, with labels in the mode that was asked for.

    Features are plain rows. Graphs that the mode leaves out are left out.
    """
    info = given.corpus.info
    for table in given.corpus.iter_tables(split=split):
        kept, y = with_labels(densify_features(table, info), info, given.labels)
        if len(kept):
            yield kept, y


def with_labels(table: GraphTable, info: CorpusInfo, mode: LabelMode) -> tuple[GraphTable, Array]:
    """Return the graphs that a mode keeps and their labels.

    Of classes a hard label is a number, ``[G]``; of tasks it is 0, 1 or missing, ``[G, C]``.
    """
    y = table.dense("graph", "y")
    if mode == "soft" or info.task == "regression":
        return table, y
    if info.task == "classification":
        hard = table.dense("graph", "label") >= 0
        known = ~np.isnan(y).any(axis=1)
        keep = hard if mode == "same-class" else known
        best = np.where(known, np.nan_to_num(y).argmax(axis=1), -1)
        return (table, best) if keep.all() else (table.filter(np.asarray(keep)), best[keep])
    near = np.where(np.isnan(y), np.nan, np.round(y)).astype(np.float32)
    soft: Array = np.any(~np.isnan(y) & (y != near), axis=1)
    if mode == "argmax" or not soft.any():
        return table, near
    return table.filter(~soft), near[~soft]


def soft_labels(given: Given) -> dict[str, int]:
    """Return how many graphs of every split have a soft label."""
    info = given.corpus.info
    found: dict[str, int] = dict.fromkeys(given.corpus.splits, 0)
    if info.task == "regression":
        return found
    for number, shard in enumerate(given.corpus.shards):
        columns = given.corpus.graph_columns(number, ["label", "y"])
        y = np.asarray(columns["y"])
        if info.task == "classification":
            soft = np.asarray(columns["label"]) < 0
        else:
            soft = np.any(~np.isnan(y) & (y != np.round(y)), axis=1)
        found[shard.split] += int(soft.sum())
    return found
