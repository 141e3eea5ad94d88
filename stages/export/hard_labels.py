"""Tables of a split with labels that other libraries can read, for formats with hard labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gsx.dense_features import densify_features
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.export.request import ExportRequest, LabelMode
from gsx.stages.graphs.subgraphs import Bools
from gsx.table import GraphTable, Values


def tables_with_labels(
    request: ExportRequest, split: str | None = None
) -> Iterator[tuple[GraphTable, Array]]:
    """Yield the graphs of each row group with their labels in the requested label mode.

    Node features are dense. Graphs that the label mode drops are missing.
    """
    info = request.corpus.info
    for table in request.corpus.iter_tables(split=split):
        kept, y = apply_label_mode(densify_features(table, info), info, request.labels)
        if len(kept):
            yield kept, y


def apply_label_mode(
    table: GraphTable, info: CorpusInfo, mode: LabelMode
) -> tuple[GraphTable, Array]:
    """Return the graphs that a label mode keeps, and their labels.

    Hard labels are class ids ``[G]`` for classification, and 0, 1 or NaN ``[G, C]`` for binary
    tasks. Soft labels and regression targets are ``[G, C]``.
    """
    y = table.dense("graph", "y")
    if mode == "soft" or info.task == "regression":
        return table, y
    if info.task == "classification":
        hard = table.dense("graph", "label") >= 0
        labelled = ~np.isnan(y).any(axis=1)
        keep = hard if mode == "same-class" else labelled
        best = np.where(labelled, np.nan_to_num(y).argmax(axis=1), -1)
        return (table, best) if keep.all() else (table.filter(np.asarray(keep)), best[keep])
    rounded = np.where(np.isnan(y), np.nan, np.round(y)).astype(np.float32)
    soft: Array = np.any(~np.isnan(y) & (y != rounded), axis=1)
    if mode == "argmax" or not soft.any():
        return table, rounded
    return table.filter(~soft), rounded[~soft]


def count_soft_labels(request: ExportRequest) -> dict[str, int]:
    """Return the number of graphs with a soft label, by split."""
    info = request.corpus.info
    counts: dict[str, int] = dict.fromkeys(request.corpus.splits, 0)
    if info.task == "regression":
        return counts
    for shard_index, shard in enumerate(request.corpus.shards):
        columns = request.corpus.graph_columns(shard_index, ["label", "y"])
        counts[shard.split] += int(is_soft(info, columns).sum())
    return counts


def is_soft(info: CorpusInfo, columns: Mapping[str, Values]) -> Bools:
    """Return which graphs have no hard label, ``[G]``, from the columns ``label`` and ``y``."""
    y = np.asarray(columns["y"])
    if info.task == "regression":
        return np.zeros(len(y), dtype=bool)
    if info.task == "classification":
        return np.asarray(np.asarray(columns["label"]) < 0)
    return np.asarray(np.any(~np.isnan(y) & (y != np.round(y)), axis=1))
