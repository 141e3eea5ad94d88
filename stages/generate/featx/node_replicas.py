"""Repeat a graph of labelled nodes with the features of its training nodes moved.

A replica holds features, labels, splits and environments of nodes, and no edges: its structure is
that of its parent. Nodes that are not for training keep their features to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import fill, same_text
from gsx.stages.augmented.rejection import next_id
from gsx.stages.generate.featx.parameters import ORIGIN, MovingRules, rules_of
from gsx.stages.generate.featx.plan import SOURCE, with_environment
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.node_features import Features, feature_columns, features_of
from gsx.stages.sharded_build import REPLICA_NODES, shard_nodes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard, write_shard
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig

SPLIT = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Replication:
    """Everything needed to make any replica of the graphs of a corpus."""

    rules: MovingRules
    info: CorpusInfo
    """Of the corpus that is made."""
    source: GraphTable
    """Source graphs, all columns, in memory once."""
    features: Features
    label: Ints
    env: Ints
    moved: Ints
    """Training nodes that have a partner."""
    partners: Partners
    first_id: int

    @property
    def env_id(self) -> int:
        """The environment of all moved nodes."""
        return self.info.environments[-1].id

    def replica(self, number: int) -> tuple[GraphTable, int]:
        """Make replica ``number`` of all graphs, and count moved nodes that came out as before."""
        name = ("generate", ORIGIN, "replica", number)
        stream = rng(self.rules.seed, *name)
        rows = self.moved
        own = made = self.features[rows]
        for turn in range(self.rules.rounds):
            # What was moved is in an environment of its own: any partner of its label will do.
            env = np.full(len(rows), self.env_id) if turn else self.env[rows]
            partner = self.partners.draw(self.label[rows], env, stream)
            strength = self.rules.strengths(len(rows), stream)
            made = self.rules.move(made, self.features[partner], strength)
        columns = feature_columns(_replaced(self.features, rows, made))
        new = {"node_env_id": self.env_id, "node_domain_id": -1}
        columns |= {name: _put(self.source.dense("node", name), rows, new[name]) for name in new}
        plain = self.source.with_columns(node=columns)
        table = GraphTable(
            node_ptr=plain.node_ptr,
            edge_ptr=np.zeros_like(plain.edge_ptr),
            graph=self._graph_columns(number, "/".join(map(str, name))),
            node=plain.node,
            edge={key: plain.dense("edge", key)[:0] for key in plain.edge},
        )
        return fill(table, self.info), _unchanged(own, made)

    def _graph_columns(self, number: int, name: str) -> dict[str, Any]:
        count = len(self.source)
        ids = self.first_id + number * count + np.arange(count, dtype=np.int64)
        none = pointers(np.zeros(count))
        return {
            "graph_id": ids,
            "split": np.full(count, SPLITS.index(SPLIT), dtype=np.int8),
            "env_id": np.full(count, -1, dtype=np.int32),
            "domain_id": np.full(count, -1, dtype=np.int32),
            "origin": np.full(count, ORIGINS.index(ORIGIN), dtype=np.int8),
            "provenance.parents": Ragged(
                np.arange(count + 1), self.source.dense("graph", "graph_id").astype(np.int64)
            ),
            "provenance.node_slot": Ragged(none, np.zeros(0, dtype=np.int16)),
            "provenance.node_number": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.bridges": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.lambda": np.full(count, np.nan, dtype=np.float32),
            "provenance.partner": np.full(count, -1, dtype=np.int64),
            "provenance.stream": same_text(name, count),
        }


def sum_up(
    config: GenerateConfig, replication: Replication, facts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what was moved in all replicas; refuse when nothing was."""
    unchanged = sum(each["unchanged"] for each in facts)
    moved = config.replicas * len(replication.moved)
    if unchanged == moved:
        raise StageError(
            f"nothing was extrapolated: all training nodes of {replication.info.name} came out as "
            "they were. Move all features with `--featx-features all`."
        )
    return {
        "replicas": config.replicas,
        "moved_features": int(replication.rules.ways.mask.sum()),
        "moved_nodes": moved,
        "unchanged": unchanged,
        "without_partner": len(training_nodes(replication.source)) - len(replication.moved),
    }


def check_config(config: GenerateConfig, info: CorpusInfo) -> None:
    """Refuse options that mean nothing where nodes have labels."""
    if config.options != "000":
        raise UsageError(
            f"{info.name} labels nodes; splicing needs labelled graphs. Use `--options 000` with "
            "`--featx`."
        )
    if config.augmented_only:
        raise UsageError(
            "replicas have the structure of their source graph, so it cannot be left out; leave "
            "`--augmented-only` away and train with `--origin featx`"
        )
    if config.featx_partner == "ranked":
        raise UsageError(
            f"{info.name} labels nodes: each has a partner of its own, and none has a rank. Leave "
            "`--featx-partner` out."
        )
    if config.count is not None or config.ratio not in (None, 1.0):
        raise UsageError(f"{info.name} labels nodes: say how often with `--replicas`")


def replication_of(
    config: GenerateConfig, inputs: Mapping[str, Artifact], corpus: Corpus
) -> Replication:
    """Read corpus and mask; refuse nodes that cannot be moved."""
    rules = rules_of(config, inputs, corpus.info)
    table = corpus.table()
    source = table.filter(table.dense("graph", "origin") == ORIGINS.index(SOURCE))
    train = training_nodes(source)
    label, env = (
        _only(source.dense("node", name).astype(np.int64), train)
        for name in ("node_label", "node_env_id")
    )
    partners = Partners.of(label, env)
    moved = train[
        (label[train] >= 0)
        & (env[train] >= 0)
        & (partners.count(label[train], env[train]) > 0)
    ]  # fmt: skip
    if not len(moved):
        raise StageError(
            f"nothing to extrapolate: no training node of {corpus.info.name} has a partner of its "
            "label in another environment. Prepare the corpus with environments."
        )
    return Replication(
        rules=rules,
        info=with_environment(corpus.info, towards=config.featx_direction == "interpolate"),
        source=source,
        features=features_of(source, corpus.info),
        label=label,
        env=env,
        moved=moved,
        partners=partners,
        first_id=next_id(corpus),
    )


def plan_replicas(config: GenerateConfig, source: GraphTable, corpus: Corpus) -> list[Shard]:
    """Cut the replicas into shards that follow those of the corpus."""
    graphs = len(source)
    nodes = shard_nodes(REPLICA_NODES, source)
    each = max(min(nodes // max(source.total_nodes, 1), config.replicas), 1)
    before = sum(shard.split == SPLIT for shard in corpus.shards)
    starts = range(0, config.replicas, each)
    return [
        Shard(
            SPLIT,
            before + number,
            before + len(starts),
            start * graphs,
            min(start + each, config.replicas) * graphs,
        )
        for number, start in enumerate(starts)
    ]


def write_replicas(
    config: GenerateConfig, replication: Replication, shard: Shard, draft: Draft
) -> dict[str, Any]:
    """Write one shard, unless it is there; needs nothing but its arguments."""
    graphs = len(replication.source)
    same: list[int] = []

    def make() -> Iterator[GraphTable]:
        for number in range(shard.start // graphs, shard.stop // graphs):
            table, count = replication.replica(number)
            same.append(count)
            yield table

    return write_shard(
        draft, shard, replication.info, make, config.formats, lambda: {"unchanged": sum(same)}
    )


def training_nodes(source: GraphTable) -> Ints:
    """Return the nodes that are trained on."""
    return np.flatnonzero(source.dense("node", "node_split") == SPLITS.index("train"))


def _only(values: Ints, rows: Ints) -> Ints:
    """Return values of some rows, and -1 for all others."""
    found = np.full(len(values), -1, dtype=np.int64)
    found[rows] = values[rows]
    return found


def _put(values: Array, rows: Ints, value: int) -> Array:
    found: Array = values.copy()
    found[rows] = value
    return found


def _replaced(features: Features, rows: Ints, made: Features) -> Features:
    """Return all features with those of some rows replaced; others keep their bits."""
    if isinstance(features, csr_matrix):
        order = np.arange(features.shape[0])
        order[rows] = features.shape[0] + np.arange(len(rows))
        return csr_matrix(vstack([features, made]))[order]
    found: Array = features.copy()
    found[rows] = made
    return found


def _unchanged(own: Features, made: Features) -> int:
    """Count rows that are as they were."""
    if isinstance(own, csr_matrix):
        return int((np.diff((own != made).indptr) == 0).sum())
    return int((~(own != made).any(axis=1)).sum())
