"""All graphs of a node-labelled corpus as one disconnected graph, for formats that need arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.dense_features import densify_features
from gsx.errors import UsageError
from gsx.ragged import Array, Ints, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.export.request import ExportRequest, LabelMode
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

_COLUMNS = {"graph_id", "origin", "provenance.parents", "node_feat", "node_feat_index",
            "node_feat_value", "edge_attr", "node_y", "node_label", "node_env_id",
            "node_domain_id", "node_split"}  # fmt: skip
MAX_VALUES = 500_000_000
"""Largest number of feature values that is written densely: 2 GB of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeArrays:
    """Source graphs and replicas as one graph without edges between them."""

    table: GraphTable
    src: Ints
    dst: Ints
    """``[E]`` end nodes of the edges, as row numbers of ``table``."""
    y: Array
    """``[N]`` class ids, -1 if unknown; or ``[N, C]``."""
    split: Ints
    """``[N]`` split code. Held-out nodes of replicas and nodes that the label mode drops have the
    code of ``all`` and belong to no split."""
    env_id: Ints
    domain_id: Ints
    graph_id: Ints
    """``[N]`` graph of every node."""
    node: Ints
    """``[N]`` number of the node within its graph."""

    def in_split(self, split: str) -> Array:
        """Return a boolean mask ``[N]`` of the nodes of a split."""
        mask: Array = self.split == SPLITS.index(split)
        return mask


def node_arrays(
    request: ExportRequest, format_name: str, max_values: int = MAX_VALUES
) -> NodeArrays:
    """Read a node-labelled corpus with dense features.

    Raise ``UsageError`` if there are more than ``max_values`` feature values.
    """
    info = request.corpus.info
    available = {column.name for column in info.columns}
    stored = request.corpus.table(columns=sorted(_COLUMNS & available))
    check_dense_size(info, stored.total_nodes, format_name, max_values)
    table = densify_features(stored, info)
    owner = row_indices(table.node_ptr)
    split = table.dense("node", "node_split").astype(np.int64)
    is_replica = table.dense("graph", "origin")[owner] != ORIGINS.index("source")
    no_split = SPLITS.index("all")
    split = np.where(is_replica & (split != SPLITS.index("train")), no_split, split)
    y, dropped = node_labels(table, info, request.labels)
    src, dst = global_edges(table)
    return NodeArrays(
        table=table,
        src=src,
        dst=dst,
        y=y,
        split=np.where(dropped, no_split, split),
        env_id=table.dense("node", "node_env_id").astype(np.int64),
        domain_id=table.dense("node", "node_domain_id").astype(np.int64),
        graph_id=table.dense("graph", "graph_id")[owner],
        node=np.arange(table.total_nodes) - table.node_ptr[owner],
    )


def check_dense_size(info: CorpusInfo, num_nodes: int, format_name: str, max_values: int) -> None:
    """Raise ``UsageError`` if dense features would have more than ``max_values`` values."""
    if num_nodes * info.num_features > max_values:
        raise UsageError(
            f"{info.name} has {num_nodes:,} nodes with {info.num_features:,} features, and "
            f"`{format_name}` stores features densely, at most {max_values:,} values. Use `--to "
            "portable`, `pyg` or `csv`, which keep sparse features sparse."
        )


def node_labels(table: GraphTable, info: CorpusInfo, mode: LabelMode) -> tuple[Array, Array]:
    """Return node labels in a label mode, and a mask ``[N]`` of the nodes that the mode drops."""
    y = table.dense("node", "node_y")
    none_dropped = np.zeros(len(y), dtype=bool)
    if mode == "soft" or info.task == "regression":
        return y, none_dropped
    if info.task == "classification":
        labelled = ~np.isnan(y).any(axis=1)
        best = np.where(labelled, np.nan_to_num(y).argmax(axis=1), -1).astype(np.int64)
        soft = labelled & (table.dense("node", "node_label") < 0)
        return best, soft if mode == "same-class" else none_dropped
    rounded = np.where(np.isnan(y), np.nan, np.round(y)).astype(np.float32)
    fractional: Array = np.any(~np.isnan(y) & (y != rounded), axis=1)
    return rounded, fractional if mode == "same-class" else none_dropped


def count_soft_nodes(request: ExportRequest) -> int:
    """Return the number of nodes that the label mode removes from their split."""
    names = ["node_y", "node_label"]
    dropped = [node_labels(table, request.corpus.info, request.labels)[1]
               for table in request.corpus.iter_tables(columns=names)]  # fmt: skip
    return sum(int(mask.sum()) for mask in dropped)
