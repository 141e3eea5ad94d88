"""Data that the report reads of a node-labelled corpus: source graphs and some replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.graphs.node_features import COLUMNS, Features, node_features
from gsx.stages.graphs.statistics import degrees
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.coverage import project_groups
from gsx.stages.report.sample import GROUPS, SAMPLE_SIZE
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import shares_parent_edges
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_REPLICAS = 4
"""Largest number of replicas that are read."""
PROJECTED_WIDTH = 64
"""Dimensions of the random projection of wider features, before the 2-D projection."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """Columns of a replica, for the nodes of its source graph."""

    graph_id: int
    nodes: Ints
    """Rows of the replicated nodes in the table of source graphs; contiguous."""
    features: Features
    y: Array
    env: Ints
    degree: Ints
    changed: Array
    """``[M]`` training nodes with other features, edges or environment than in the source."""
    edges: tuple[Ints, Ints] | None
    """End nodes of its edges, or None if it shares the edges of the source."""
    origin: str


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Columns of the source nodes, ``[N]`` each, and their replicas."""

    table: GraphTable
    features: Features
    y: Array
    label: Ints
    env: Ints
    split: Ints
    degree: Ints
    replicas: tuple[Replica, ...]
    total_replicas: int

    @cached_property
    def groups(self) -> dict[str, Ints]:
        """Source nodes of every non-empty group."""
        codes = {name: SPLITS.index(name) for name in ("train", "id_test", "ood_val", "ood_test")}
        nodes_by_group = {name: np.flatnonzero(self.split == code) for name, code in codes.items()}
        return {name: nodes for name, nodes in nodes_by_group.items() if len(nodes)}


@dataclass(frozen=True, slots=True, eq=False)
class NodeSample:
    """Sampled nodes of every group; changed nodes of replicas are the group ``augmented``."""

    nodes: dict[str, Ints]
    """Rows of source nodes; for augmented nodes, of the nodes they were replicated from."""
    replica: Ints
    """Index of the replica of every augmented node."""
    features: dict[str, Features]
    y: dict[str, Array]
    env: dict[str, Ints]


def read_node_columns(corpus: Corpus) -> NodeColumns:
    """Read all source graphs and the first ``MAX_REPLICAS`` replicas."""
    origin = np.concatenate(
        [
            np.asarray(corpus.graph_columns(shard_index, ["origin"])["origin"])
            for shard_index in range(len(corpus.shards))
        ]
    )
    replica_rows = np.flatnonzero(origin != ORIGINS.index("source"))
    tables = list(
        _tables(corpus, np.setdiff1d(np.arange(len(origin)), replica_rows[MAX_REPLICAS:]))
    )
    is_source = [table.dense("graph", "origin") == ORIGINS.index("source") for table in tables]
    source = [table.filter(mask) for table, mask in zip(tables, is_source, strict=True)]
    replicas = [table.filter(~mask) for table, mask in zip(tables, is_source, strict=True)]
    source_table = concat(source)
    if not source_table.total_nodes:
        raise StageError(f"corpus {corpus.key[:12]} has no nodes, so there is nothing to report.")
    return NodeColumns(
        table=source_table,
        features=node_features(source_table, corpus.info),
        y=source_table.dense("node", "node_y"),
        label=source_table.dense("node", "node_label").astype(np.int64),
        env=source_table.dense("node", "node_env_id").astype(np.int64),
        split=source_table.dense("node", "node_split").astype(np.int64),
        degree=degrees(source_table),
        replicas=tuple(
            _replica(table.slice(row, row + 1), source_table, corpus.info)
            for table in replicas
            for row in range(len(table))
        ),
        total_replicas=len(replica_rows),
    )


def _tables(corpus: Corpus, rows: Ints) -> Iterator[GraphTable]:
    """Yield the graphs of the given rows, one table per row group."""
    available = {column.name for column in corpus.info.columns}
    names = {"graph_id", "origin", "provenance.parents", "node_split", "node_env_id", "node_label",
             "node_y", *COLUMNS}  # fmt: skip
    first = 0
    for shard, group, size in corpus.group_sizes():
        group_rows = rows[(rows >= first) & (rows < first + size)]
        if len(group_rows):
            yield corpus.read_group((shard, group), sorted(names & available)).take(
                group_rows - first
            )
        first += size


def _replica(table: GraphTable, source: GraphTable, info: CorpusInfo) -> Replica:
    parent = int(table.lists("graph", "provenance.parents").values[0])
    row = int(np.flatnonzero(source.dense("graph", "graph_id") == parent)[0])
    nodes = np.arange(source.node_ptr[row], source.node_ptr[row + 1])
    before = source.slice(row, row + 1)
    env, features = table.dense("node", "node_env_id").astype(np.int64), node_features(table, info)
    changed = env != before.dense("node", "node_env_id")
    changed[changed_entries(node_features(before, info), features)[0]] = True
    has_own_edges = not shares_parent_edges(table).any()
    if has_own_edges:  # edges are only dropped, so nodes of equal degree have equal edges
        changed |= degrees(table) != degrees(before)
    return Replica(
        graph_id=int(table.dense("graph", "graph_id")[0]),
        nodes=nodes,
        features=features,
        y=table.dense("node", "node_y"),
        env=env,
        degree=degrees(table),
        changed=changed & (before.dense("node", "node_split") == SPLITS.index("train")),
        edges=global_edges(table) if has_own_edges else None,
        origin=ORIGINS[int(table.dense("graph", "origin")[0])],
    )


def sample_nodes(columns: NodeColumns, seed: int, max_nodes: int = SAMPLE_SIZE) -> NodeSample:
    """Sample nodes of every group uniformly."""
    nodes = {
        name: _random_rows(rows, rng(seed, "report", "nodes", name), max_nodes)
        for name, rows in columns.groups.items()
    }
    features = {name: columns.features[rows] for name, rows in nodes.items()}
    y = {name: columns.y[rows] for name, rows in nodes.items()}
    env = {name: columns.env[rows] for name, rows in nodes.items()}
    owner = np.zeros(0, dtype=np.int64)
    changed = [np.flatnonzero(replica.changed) for replica in columns.replicas]
    if sum(map(len, changed)):
        share = max(max_nodes // len(changed), 1)
        sampled_rows = [
            _random_rows(rows, rng(seed, "report", "moved", replica_index), share)
            for replica_index, rows in enumerate(changed)
        ]
        pairs = list(zip(columns.replicas, sampled_rows, strict=True))
        owner = np.repeat(np.arange(len(sampled_rows)), [len(rows) for rows in sampled_rows])
        nodes["augmented"] = np.concatenate([replica.nodes[rows] for replica, rows in pairs])
        features["augmented"] = _stack([replica.features[rows] for replica, rows in pairs])
        y["augmented"] = np.concatenate([replica.y[rows] for replica, rows in pairs])
        env["augmented"] = np.concatenate([replica.env[rows] for replica, rows in pairs])
    return NodeSample(nodes, owner, features, y, env)


def _random_rows(rows: Ints, stream: Generator, max_rows: int) -> Ints:
    return np.sort(stream.permutation(rows)[:max_rows])


def _stack(blocks: Sequence[Features]) -> Features:
    if isinstance(blocks[0], csr_matrix):
        return vstack(blocks, format="csr")
    return np.concatenate(blocks)


def node_embeddings(columns: NodeColumns, sample: NodeSample) -> tuple[dict[str, Array], list[Any]]:
    """Return 2-D positions of sampled nodes by group, and distances of groups to training nodes.

    A node is embedded by its features, the mean features of its neighbors in the source graph, and
    its degree.
    """
    reduced = _reduce_width(columns.features)
    neighbor_means = _neighbor_means(global_edges(columns.table), reduced)
    vectors: dict[str, Array] = {}
    for name in GROUPS:
        if name not in sample.nodes:
            continue
        nodes = sample.nodes[name]
        neighbors, degree = neighbor_means[nodes], columns.degree[nodes]
        if name == "augmented":
            for replica_index, replica in enumerate(columns.replicas):
                if replica.edges is None:
                    continue
                mask = sample.replica == replica_index
                local_nodes = nodes[mask] - replica.nodes[0]
                neighbors[mask] = _neighbor_means(replica.edges, reduced[replica.nodes])[
                    local_nodes
                ]
                degree[mask] = replica.degree[local_nodes]
        blocks = [_reduce_width(sample.features[name]), neighbors, np.log1p(degree)[:, None]]
        vectors[name] = np.concatenate(blocks, axis=1)
    return project_groups(vectors) if vectors else ({}, [])


def _neighbor_means(edges: tuple[Ints, Ints], rows: Array) -> Array:
    """Return the mean of ``rows`` over the neighbors of every node."""
    src, dst = edges
    links = csr_matrix((np.ones(len(src)), (src, dst)), shape=(len(rows), len(rows)))
    degree = np.bincount(src, minlength=len(rows))
    return np.asarray((links @ rows) / np.maximum(degree, 1)[:, None])


def _reduce_width(features: Features) -> Array:
    """Return dense rows of at most ``PROJECTED_WIDTH`` values, by random projection if wider."""
    width = features.shape[1]
    if width <= PROJECTED_WIDTH:
        dense = features.toarray() if isinstance(features, csr_matrix) else features
        return np.asarray(dense, dtype=np.float64)
    signs = (
        rng(0, "report", "directions", width).integers(0, 2, size=(width, PROJECTED_WIDTH)) * 2.0
        - 1
    )
    return np.asarray(features.astype(np.float64) @ signs / np.sqrt(PROJECTED_WIDTH))


def replaced_edges(columns: NodeColumns, replica: Replica) -> tuple[Ints, Ints]:
    """Return the edges of all source graphs, with the edges of one graph taken from a replica."""
    src, dst = global_edges(columns.table)
    if replica.edges is None:
        return src, dst
    first, last = int(replica.nodes[0]), int(replica.nodes[-1])
    others = (src < first) | (src > last)
    own_src, own_dst = (first + ends for ends in replica.edges)
    return np.concatenate([src[others], own_src]), np.concatenate([dst[others], own_dst])


def dropped_edge_counts(columns: NodeColumns) -> Array:
    """Return the number of dropped edges per training node, over replicas that store edges."""
    counts = [np.zeros(0, dtype=np.int64)]
    for replica in columns.replicas:
        if replica.edges is not None:
            train = columns.split[replica.nodes] == SPLITS.index("train")
            counts.append((columns.degree[replica.nodes] - replica.degree)[train])
    return np.concatenate(counts)


def changed_feature_counts(columns: NodeColumns) -> Array:
    """Return the number of changed features per changed node, over replicas without edges."""
    counts = [np.zeros(0, dtype=np.int64)]
    for replica in columns.replicas:
        if replica.edges is not None:
            continue
        rows, _ = changed_entries(columns.features[replica.nodes], replica.features)
        counts.append(np.bincount(rows, minlength=len(replica.nodes))[replica.changed])
    return np.concatenate(counts)


def changed_entries(before: Features, after: Features) -> tuple[Ints, Ints]:
    """Return rows and columns of the entries in which two matrices differ."""
    differs = before != after
    rows, columns = differs.nonzero()
    return np.asarray(rows), np.asarray(columns)
