"""MaskFeature and DropEdge where nodes have labels: replicas of a graph that lack something.

Node i of a replica is node i of its parent, so nothing that takes nodes away can be one. With
features of training nodes masked it holds no edges: its structure is the parent's; with edges
dropped it holds those that are left (docs/adr/0007). Held-out nodes keep their features to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Ragged, pointers
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.augment.drop_edge import PAIR, drop_edges, number_pairs
from gsx.stages.augment.mask_feature import mask_rows
from gsx.stages.augment.perturbation import WORDS, described, origin_of
from gsx.stages.augmented.derived_columns import fill, same_text
from gsx.stages.augmented.rejection import next_id
from gsx.stages.graphs.node_features import feature_columns, features_of
from gsx.stages.graphs.statistics import degrees
from gsx.stages.sharded_build import REPLICA_NODES, Facts, Read, ShardPlan, shard_nodes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard, finish_corpus, write_shard
from gsx.storage.corpora.link_shards import carry_corpus
from gsx.table import GraphTable, Values

if TYPE_CHECKING:
    from gsx.stages.augment.stage import AugmentConfig

SPLIT = "all"
REPLICAS = 4
"""Replicas when nothing is said."""


class Repeating:
    """Makes replicas of graphs of labelled nodes."""

    def __init__(self, config: AugmentConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._corpus = config, Corpus(inputs["corpus"])
        check_nodes(config, self._corpus.info)
        assert config.method in ("drop-edge", "mask-feature")
        self._method: Literal["drop-edge", "mask-feature"] = config.method
        self._replicas = config.replicas or REPLICAS
        self._info = described(self._corpus.info, WORDS[self._method])
        table = self._corpus.table()
        self._source = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
        split = self._source.dense("node", "node_split")
        self._rows = np.flatnonzero(split == SPLITS.index("train"))
        if not len(self._rows):
            raise StageError(f"{self._info.name} has no `train` nodes to learn from.")
        if self._method == "drop-edge":
            self._source = number_pairs(self._source)
        self._first_id = next_id(self._corpus)
        self._planned = self._plan()

    def _plan(self) -> list[Shard]:
        """Cut the replicas into shards that follow those of the corpus."""
        graphs, replicas = len(self._source), self._replicas
        nodes = shard_nodes(REPLICA_NODES, self._source)
        each = max(min(nodes // max(self._source.total_nodes, 1), replicas), 1)
        before = sum(shard.split == SPLIT for shard in self._corpus.shards)
        starts = range(0, replicas, each)
        total = before + len(starts)
        return [
            Shard(SPLIT, n, total, start * graphs, min(start + each, replicas) * graphs)
            for n, start in enumerate(starts, start=before)
        ]

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of replicas."""
        return [
            ShardPlan(
                units=tuple(map(shard.path, self._config.formats)),
                graphs=shard.stop - shard.start,
                about=f"{self._method} {shard.start} to {shard.stop - 1}, seed {self._config.seed}",
            )
            for shard in self._planned
        ]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one of them, unless it is there."""
        shard, graphs = self._planned[number], len(self._source)
        same: list[int] = []

        def make() -> Iterator[GraphTable]:
            for each in range(shard.start // graphs, shard.stop // graphs):
                table, count = self._replica(each)
                same.append(count)
                yield table

        return write_shard(
            draft,
            shard,
            self._info,
            make,
            self._config.formats,
            lambda: {"augmented": {"unchanged": sum(same)}},
        )

    def _replica(self, number: int) -> tuple[GraphTable, int]:
        """Make replica ``number`` of all graphs, and count training nodes that are as before."""
        name = ("augment", self._method, "replica", number)
        change = self._dropped if self._method == "drop-edge" else self._masked
        table, same = change(rng(self._config.seed, *name))
        domain = table.dense("node", "node_domain_id").copy()
        domain[self._rows] = -1
        whole = table.with_columns(
            graph=self._graph_columns(number, "/".join(map(str, name))),
            node={"node_domain_id": domain},
        )
        return fill(whole, self._info), same

    def _dropped(self, stream: np.random.Generator) -> tuple[GraphTable, int]:
        """Drop edges wherever they are: what a node hears from its neighbors is what changes."""
        table = drop_edges(self._source, self._config.rate or 0.0, stream)
        lost = (degrees(self._source) - degrees(table))[self._rows]
        edge = {name: values for name, values in table.edge.items() if name != PAIR}
        plain = GraphTable(table.node_ptr, table.edge_ptr, {}, table.node, edge)
        return plain, int((lost == 0).sum())

    def _masked(self, stream: np.random.Generator) -> tuple[GraphTable, int]:
        """Mask features of training nodes; edges are those of the parent."""
        config, source = self._config, self._source
        features = features_of(source, self._info)
        rate, masked = config.rate or 0.0, config.masked or "columns"
        new = mask_rows(features, self._rows, rate, masked, stream)
        table = GraphTable(
            node_ptr=source.node_ptr,
            edge_ptr=np.zeros_like(source.edge_ptr),
            graph={},
            node={**source.node, **feature_columns(new)},
            edge={key: source.dense("edge", key)[:0] for key in source.edge},
        )
        changed = (features != new)[self._rows].sum(axis=1)
        return table, int((np.asarray(changed) == 0).sum())

    def _graph_columns(self, number: int, name: str) -> dict[str, Values]:
        count = len(self._source)
        none = pointers(np.zeros(count))
        parents = self._source.dense("graph", "graph_id").astype(np.int64)
        return {
            "graph_id": self._first_id + number * count + np.arange(count, dtype=np.int64),
            "split": np.full(count, SPLITS.index(SPLIT), dtype=np.int8),
            "env_id": np.full(count, -1, dtype=np.int32),
            "domain_id": np.full(count, -1, dtype=np.int32),
            "origin": np.full(count, ORIGINS.index(origin_of(self._method)), dtype=np.int8),
            "provenance.parents": Ragged(np.arange(count + 1), parents),
            "provenance.node_slot": Ragged(none, np.zeros(0, dtype=np.int16)),
            "provenance.node_number": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.bridges": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.lambda": np.full(count, np.nan, dtype=np.float32),
            "provenance.partner": np.full(count, -1, dtype=np.int64),
            "provenance.stream": same_text(name, count),
        }

    def finish(self, draft: Draft, facts: Sequence[Facts], _: Read) -> Outcome:
        """Carry the source graphs, and sum up what changed; refuse when nothing did."""
        config = self._config
        carried = carry_corpus(draft, self._corpus, len(self._planned), config.formats, SPLIT)
        unchanged = sum(each["augmented"]["unchanged"] for each in facts)
        nodes = self._replicas * len(self._rows)
        if unchanged == nodes:
            raise StageError(
                f"{config.method} changed nothing: all training nodes of {self._info.name} came "
                "out as they were. Raise the rate."
            )
        quality = {
            "method": config.method,
            "replicas": self._replicas,
            "nodes": nodes,
            "unchanged": unchanged,
        }
        outcome = finish_corpus(
            draft, self._info, [*carried, *facts], {"quality": {"augment": quality}}
        )
        return Outcome(counts=outcome.counts, warnings=outcome.warnings, summary=outcome.summary)


def check_nodes(config: AugmentConfig, info: CorpusInfo) -> None:
    """Refuse augmenters and options that mean nothing where nodes have labels."""
    if config.method not in ("drop-edge", "mask-feature"):
        raise UsageError(
            f"{config.method} is graph-level only, and {info.name} labels nodes, all of which a "
            "replica of its graph has. `gsx augment` takes drop-edge and mask-feature there."
        )
    if config.augmented_only:
        raise UsageError(
            "only nodes of the source graph are scored, so it cannot be left out; leave "
            f"`--augmented-only` away and train with `--origin {origin_of(config.method)}`"
        )
    if config.count is not None or config.ratio not in (None, 1.0):
        raise UsageError(f"{info.name} labels nodes: say how often with `--replicas`")
