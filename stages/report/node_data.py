"""What the report reads of a corpus that labels nodes: the source, and some of its replicas."""

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
from gsx.stages.report.coverage import laid_flat
from gsx.stages.report.sample import GROUPS, SAMPLE
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import shares_parent_edges
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from numpy.random import Generator

REPLICAS = 4
"""Replicas that are looked at."""
WIDTH = 64
"""Directions that rows of more features are projected to before they are laid flat."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """What a replica says of the nodes of its source graph."""

    graph_id: int
    nodes: Ints
    """Nodes of the source graphs, as numbered in these; all of one graph."""
    features: Features
    y: Array
    env: Ints
    degree: Ints
    moved: Array
    """``[M]`` whether a training node has other features, edges or another environment."""
    edges: tuple[Ints, Ints] | None
    """Ends of its edges where they are not those of the source."""
    origin: str


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """Nodes of the source graphs, ``[N]`` each, and replicas of them."""

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
        """Nodes of the source by group, those without any left out."""
        codes = {name: SPLITS.index(name) for name in ("train", "id_test", "ood_val", "ood_test")}
        found = {name: np.flatnonzero(self.split == code) for name, code in codes.items()}
        return {name: nodes for name, nodes in found.items() if len(nodes)}


@dataclass(frozen=True, slots=True, eq=False)
class NodeSample:
    """Some nodes of every group, those that were moved as ``augmented``."""

    nodes: dict[str, Ints]
    """Nodes of the source graphs; of moved ones, those they came from."""
    replica: Ints
    """Which replica every sampled moved node is of."""
    features: dict[str, Features]
    y: dict[str, Array]
    env: dict[str, Ints]


def read_nodes(corpus: Corpus) -> NodeFacts:
    """Read all source graphs and the first replicas."""
    origin = np.concatenate(
        [
            np.asarray(corpus.graph_columns(number, ["origin"])["origin"])
            for number in range(len(corpus.shards))
        ]
    )
    made = np.flatnonzero(origin != ORIGINS.index("source"))
    tables = list(_tables(corpus, np.setdiff1d(np.arange(len(origin)), made[REPLICAS:])))
    own = [each.dense("graph", "origin") == ORIGINS.index("source") for each in tables]
    source = [each.filter(mine) for each, mine in zip(tables, own, strict=True)]
    replicas = [each.filter(~mine) for each, mine in zip(tables, own, strict=True)]
    whole = concat(source)
    if not whole.total_nodes:
        raise StageError(f"corpus {corpus.key[:12]} has no nodes; there is nothing to report.")
    return NodeFacts(
        table=whole,
        features=node_features(whole, corpus.info),
        y=whole.dense("node", "node_y"),
        label=whole.dense("node", "node_label").astype(np.int64),
        env=whole.dense("node", "node_env_id").astype(np.int64),
        split=whole.dense("node", "node_split").astype(np.int64),
        degree=degrees(whole),
        replicas=tuple(
            _replica(each.slice(row, row + 1), whole, corpus.info)
            for each in replicas
            for row in range(len(each))
        ),
        total_replicas=len(made),
    )


def _tables(corpus: Corpus, rows: Ints) -> Iterator[GraphTable]:
    """Yield the graphs that stand in some rows, row group by row group."""
    known = {column.name for column in corpus.info.columns}
    names = {"graph_id", "origin", "provenance.parents", "node_split", "node_env_id", "node_label",
             "node_y", *COLUMNS}  # fmt: skip
    first = 0
    for shard, group, size in corpus.group_sizes():
        inside = rows[(rows >= first) & (rows < first + size)]
        if len(inside):
            yield corpus.read_group((shard, group), sorted(names & known)).take(inside - first)
        first += size


def _replica(table: GraphTable, source: GraphTable, info: CorpusInfo) -> Replica:
    parent = int(table.lists("graph", "provenance.parents").values[0])
    row = int(np.flatnonzero(source.dense("graph", "graph_id") == parent)[0])
    nodes = np.arange(source.node_ptr[row], source.node_ptr[row + 1])
    before = source.slice(row, row + 1)
    env, features = table.dense("node", "node_env_id").astype(np.int64), node_features(table, info)
    moved = env != before.dense("node", "node_env_id")
    moved[changed(node_features(before, info), features)[0]] = True
    own = not shares_parent_edges(table).any()
    if own:  # edges are dropped and never added, so a node that has as many has the same
        moved |= degrees(table) != degrees(before)
    return Replica(
        graph_id=int(table.dense("graph", "graph_id")[0]),
        nodes=nodes,
        features=features,
        y=table.dense("node", "node_y"),
        env=env,
        degree=degrees(table),
        moved=moved & (before.dense("node", "node_split") == SPLITS.index("train")),
        edges=global_edges(table) if own else None,
        origin=ORIGINS[int(table.dense("graph", "origin")[0])],
    )


def sample_nodes(facts: NodeFacts, seed: int, each: int = SAMPLE) -> NodeSample:
    """Draw nodes of every group."""
    nodes = {
        name: _some(rows, rng(seed, "report", "nodes", name), each)
        for name, rows in facts.groups.items()
    }
    features = {name: facts.features[rows] for name, rows in nodes.items()}
    y = {name: facts.y[rows] for name, rows in nodes.items()}
    env = {name: facts.env[rows] for name, rows in nodes.items()}
    owner = np.zeros(0, dtype=np.int64)
    moved = [np.flatnonzero(replica.moved) for replica in facts.replicas]
    if sum(map(len, moved)):
        share = max(each // len(moved), 1)
        kept = [
            _some(rows, rng(seed, "report", "moved", number), share)
            for number, rows in enumerate(moved)
        ]
        pairs = list(zip(facts.replicas, kept, strict=True))
        owner = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
        nodes["augmented"] = np.concatenate([one.nodes[rows] for one, rows in pairs])
        features["augmented"] = _stack([one.features[rows] for one, rows in pairs])
        y["augmented"] = np.concatenate([one.y[rows] for one, rows in pairs])
        env["augmented"] = np.concatenate([one.env[rows] for one, rows in pairs])
    return NodeSample(nodes, owner, features, y, env)


def _some(rows: Ints, stream: Generator, most: int) -> Ints:
    return np.sort(stream.permutation(rows)[:most])


def _stack(parts: Sequence[Features]) -> Features:
    if isinstance(parts[0], csr_matrix):
        return vstack(parts, format="csr")
    return np.concatenate(parts)


def node_planes(facts: NodeFacts, sample: NodeSample) -> tuple[dict[str, Array], list[Any]]:
    """Return places of nodes by their features and those of their neighbors, and distances.

    Features of neighbors are those of the source graph, as in replicas, where only training nodes
    move.
    """
    heard = _narrow(facts.features)
    around = _around(global_edges(facts.table), heard)
    vectors: dict[str, Array] = {}
    for name in GROUPS:
        if name not in sample.nodes:
            continue
        nodes = sample.nodes[name]
        near, degree = around[nodes], facts.degree[nodes]
        if name == "augmented":
            for number, replica in enumerate(facts.replicas):
                if replica.edges is None:
                    continue
                mine = sample.replica == number
                own = nodes[mine] - replica.nodes[0]
                near[mine] = _around(replica.edges, heard[replica.nodes])[own]
                degree[mine] = replica.degree[own]
        parts = [_narrow(sample.features[name]), near, np.log1p(degree)[:, None]]
        vectors[name] = np.concatenate(parts, axis=1)
    return laid_flat(vectors) if vectors else ({}, [])


def _around(edges: tuple[Ints, Ints], rows: Array) -> Array:
    """Return the mean of the rows of every node's neighbors."""
    src, dst = edges
    links = csr_matrix((np.ones(len(src)), (src, dst)), shape=(len(rows), len(rows)))
    degree = np.bincount(src, minlength=len(rows))
    return np.asarray((links @ rows) / np.maximum(degree, 1)[:, None])


def _narrow(features: Features) -> Array:
    """Return rows of at most ``WIDTH`` values; more are projected to random directions."""
    width = features.shape[1]
    if width <= WIDTH:
        plain = features.toarray() if isinstance(features, csr_matrix) else features
        return np.asarray(plain, dtype=np.float64)
    signs = rng(0, "report", "directions", width).integers(0, 2, size=(width, WIDTH)) * 2.0 - 1
    return np.asarray(features.astype(np.float64) @ signs / np.sqrt(WIDTH))


def replaced_edges(facts: NodeFacts, replica: Replica) -> tuple[Ints, Ints]:
    """Return ends of the edges of all source graphs, those of one as a replica has them."""
    src, dst = global_edges(facts.table)
    if replica.edges is None:
        return src, dst
    first, last = int(replica.nodes[0]), int(replica.nodes[-1])
    others = (src < first) | (src > last)
    own_src, own_dst = (first + ends for ends in replica.edges)
    return np.concatenate([src[others], own_src]), np.concatenate([dst[others], own_dst])


def lost_edges(facts: NodeFacts) -> Array:
    """Return how many edges every training node lost in replicas that have edges of their own."""
    counts = [np.zeros(0, dtype=np.int64)]
    for replica in facts.replicas:
        if replica.edges is not None:
            train = facts.split[replica.nodes] == SPLITS.index("train")
            counts.append((facts.degree[replica.nodes] - replica.degree)[train])
    return np.concatenate(counts)


def moved_counts(facts: NodeFacts) -> Array:
    """Return how many features of every moved node came out differently."""
    counts = [np.zeros(0, dtype=np.int64)]
    for replica in facts.replicas:
        if replica.edges is not None:
            continue
        rows, _ = changed(facts.features[replica.nodes], replica.features)
        counts.append(np.bincount(rows, minlength=len(replica.nodes))[replica.moved])
    return np.concatenate(counts)


def changed(before: Features, after: Features) -> tuple[Ints, Ints]:
    """Return rows and columns in which two matrices differ."""
    differ = before != after
    rows, columns = differ.nonzero()
    return np.asarray(rows), np.asarray(columns)
