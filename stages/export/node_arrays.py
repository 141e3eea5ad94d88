"""What layouts of labelled nodes share: all graphs as one, and labels other tools can hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.errors import UsageError
from gsx.pyg import densify_features
from gsx.ragged import Array, Ints, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.export.request import Given, LabelMode
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable

_COLUMNS = {"graph_id", "origin", "provenance.parents", "node_feat", "node_feat_index",
            "node_feat_value", "edge_attr", "node_y", "node_label", "node_env_id",
            "node_domain_id", "node_split"}  # fmt: skip
MOST_VALUES = 500_000_000
"""Features of all nodes that are written as plain rows: two gigabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeArrays:
    """All graphs of a corpus as one, replicas beside their source without edges between."""

    table: GraphTable
    src: Ints
    dst: Ints
    """``[E]`` ends of edges, numbered through all graphs."""
    y: Array
    """``[N]`` classes, -1 where none is known; or ``[N, C]``."""
    split: Ints
    """``[N]`` split, or that of no split: held-out nodes of replicas, labels that a mode leaves."""
    env: Ints
    domain: Ints
    graph: Ints
    """``[N]`` the graph a node is of."""
    number: Ints
    """``[N]`` its number in that graph."""

    def inside(self, split: str) -> Array:
        """Say which nodes a split holds."""
        found: Array = self.split == SPLITS.index(split)
        return found


def node_arrays(given: Given, layout: str, most: int = MOST_VALUES) -> NodeArrays:
    """Read a corpus that labels nodes; refuse one whose features are too many for plain rows."""
    info = given.corpus.info
    known = {column.name for column in info.columns}
    stored = given.corpus.table(columns=sorted(_COLUMNS & known))
    require_few(info, stored.total_nodes, layout, most)
    table = densify_features(stored, info)
    owner = row_indices(table.node_ptr)
    split = table.dense("node", "node_split").astype(np.int64)
    again = table.dense("graph", "origin")[owner] != ORIGINS.index("source")
    away = SPLITS.index("all")
    split = np.where(again & (split != SPLITS.index("train")), away, split)
    y, soft = hardened(table, info, given.labels)
    src, dst = global_edges(table)
    return NodeArrays(
        table=table,
        src=src,
        dst=dst,
        y=y,
        split=np.where(soft, away, split),
        env=table.dense("node", "node_env_id").astype(np.int64),
        domain=table.dense("node", "node_domain_id").astype(np.int64),
        graph=table.dense("graph", "graph_id")[owner],
        number=np.arange(table.total_nodes) - table.node_ptr[owner],
    )


def require_few(info: CorpusInfo, nodes: int, layout: str, most: int) -> None:
    """Refuse features that would fill a disk once their zeros are written."""
    if nodes * info.num_features > most:
        raise UsageError(
            f"{info.name} has {nodes:,} nodes of {info.num_features:,} features, and `{layout}` "
            f"writes every zero of them: more than {most:,} values. Export it with `--to portable`,"
            " `pyg` or `csv`, which keep sparse features sparse."
        )


def hardened(table: GraphTable, info: CorpusInfo, mode: LabelMode) -> tuple[Array, Array]:
    """Return labels of nodes in a mode, and which nodes the mode takes out of their split."""
    y = table.dense("node", "node_y")
    nobody = np.zeros(len(y), dtype=bool)
    if mode == "soft" or info.task == "regression":
        return y, nobody
    if info.task == "classification":
        known = ~np.isnan(y).any(axis=1)
        best = np.where(known, np.nan_to_num(y).argmax(axis=1), -1).astype(np.int64)
        soft = known & (table.dense("node", "node_label") < 0)
        return best, soft if mode == "same-class" else nobody
    near = np.where(np.isnan(y), np.nan, np.round(y)).astype(np.float32)
    torn: Array = np.any(~np.isnan(y) & (y != near), axis=1)
    return near, torn if mode == "same-class" else nobody


def soft_nodes(given: Given) -> int:
    """Return how many nodes a mode takes out of their split."""
    names = ["node_y", "node_label"]
    found = [hardened(table, given.corpus.info, given.labels)[1]
             for table in given.corpus.iter_tables(columns=names)]  # fmt: skip
    return sum(int(soft.sum()) for soft in found)
