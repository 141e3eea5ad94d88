"""Source graphs of an augmented corpus: training graphs, training nodes, next free graph id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Ints
from gsx.schema import ORIGINS, SPLITS
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

SOURCE = "source"
"""Value of the column ``origin`` for graphs that were not generated."""


def training_graphs(corpus: Corpus, graph_columns: Sequence[str], purpose: str) -> GraphTable:
    """Return all graphs of the ``train`` split with their node and edge columns.

    Only the given graph columns are read. ``purpose`` completes the error of a corpus without
    training graphs.
    """
    info = corpus.info
    if "train" not in corpus.splits:
        raise StageError(
            f"{info.name} has no `train` graphs to {purpose}. Prepare it with a `train` split."
        )
    names = [
        column.name
        for column in info.columns
        if column.axis != "graph" or column.name in graph_columns
    ]
    return corpus.table(split="train", columns=names)


def source_graphs(corpus: Corpus) -> GraphTable:
    """Return the graphs of all splits that were not generated, with all columns."""
    table = corpus.table()
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(SOURCE))


def training_nodes(source: GraphTable) -> Ints:
    """Return the indices of the nodes whose split is ``train``."""
    return np.flatnonzero(source.dense("node", "node_split") == SPLITS.index("train"))


def next_graph_id(corpus: Corpus) -> int:
    """Return 1 + the largest ``graph_id`` of a corpus."""
    shard_indices = range(len(corpus.shards))
    ids = (corpus.graph_columns(index, ["graph_id"])["graph_id"] for index in shard_indices)
    return 1 + max(int(np.asarray(shard_ids).max(initial=-1)) for shard_ids in ids)
