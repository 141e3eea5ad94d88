"""Replicas of node-labelled graphs: plan their shards, set their columns, write and finish them.

Node i of a replica is node i of its source graph. A replica without edges shares the edges of its
source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gsx.schema import CorpusInfo
from gsx.stages.augmented.derived_columns import derived_columns, one_parent_each
from gsx.stages.augmented.shards import finish_augmented
from gsx.stages.sharded_build import REPLICA_NODES, ShardStats, max_shard_nodes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Format, Shard, write_shard
from gsx.storage.corpora.link_shards import link_corpus
from gsx.table import GraphTable, Values

SPLIT = "all"
"""Split of graphs whose nodes have splits."""


def plan_replicas(corpus: Corpus, source: GraphTable, replicas: int) -> list[Shard]:
    """Return the shards that hold ``replicas`` replicas of all source graphs.

    They follow the shards of the corpus. Rows are counted from 0 over all replicas.
    """
    max_nodes = max_shard_nodes(REPLICA_NODES, source)
    per_shard = max(min(max_nodes // max(source.total_nodes, 1), replicas), 1)
    before = sum(shard.split == SPLIT for shard in corpus.shards)
    starts = range(0, replicas, per_shard)
    graphs = len(source)
    return [
        Shard(
            SPLIT,
            before + index,
            before + len(starts),
            start * graphs,
            min(start + per_shard, replicas) * graphs,
        )
        for index, start in enumerate(starts)
    ]


def replica_columns(
    source: GraphTable, replica: int, *, first_id: int, origin: str, stream: str
) -> dict[str, Values]:
    """Return the graph columns of replica number ``replica`` of all source graphs.

    ``first_id`` is the ``graph_id`` of the first graph of replica 0.
    """
    count = len(source)
    return {
        "graph_id": first_id + replica * count + np.arange(count, dtype=np.int64),
        "env_id": np.full(count, -1, dtype=np.int32),
        **derived_columns(
            count,
            split=SPLIT,
            origin=origin,
            stream=stream,
            parents=one_parent_each(source.dense("graph", "graph_id")),
        ),
    }


def without_edges(source: GraphTable, node: Mapping[str, Values]) -> GraphTable:
    """Return graphs with the given node columns, no graph columns and no stored edges."""
    return GraphTable(
        node_ptr=source.node_ptr,
        edge_ptr=np.zeros_like(source.edge_ptr),
        graph={},
        node=dict(node),
        edge={name: source.dense("edge", name)[:0] for name in source.edge},
    )


def write_replica_shard(
    draft: Draft,
    shard: Shard,
    info: CorpusInfo,
    graphs: int,
    build_replica: Callable[[int], tuple[GraphTable, int]],
    formats: Sequence[Format],
    stats: Callable[[int], Mapping[str, Any]],
) -> dict[str, Any]:
    """Write one shard of replicas unless it exists, and return its statistics.

    ``graphs`` is the number of source graphs. ``build_replica`` returns a replica and how many of
    its training nodes are unchanged; ``stats`` maps the sum of these counts to stored statistics.
    """
    unchanged: list[int] = []

    def tables() -> Iterator[GraphTable]:
        for replica in range(shard.start // graphs, shard.stop // graphs):
            table, unchanged_nodes = build_replica(replica)
            unchanged.append(unchanged_nodes)
            yield table

    return write_shard(draft, shard, info, tables, formats, lambda: stats(sum(unchanged)))


def finish_replicas(
    draft: Draft,
    corpus: Corpus,
    info: CorpusInfo,
    stats: Sequence[ShardStats],
    formats: Sequence[Format],
    quality: Mapping[str, Any],
    warnings: Sequence[str] = (),
) -> StageResult:
    """Link the source shards and write the metadata of a corpus with replicas."""
    linked = link_corpus(draft, corpus, len(stats), formats, SPLIT)
    return finish_augmented(draft, info, [*linked, *stats], quality, warnings)
