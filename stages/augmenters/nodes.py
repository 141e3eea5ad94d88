"""MaskFeature where nodes have labels: replicas of a graph with features of training nodes masked.

A replica holds no edges: its structure is that of its parent (docs/adr/0007). So nothing that
changes the structure can be a replica, and held-out nodes keep their features to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gsx.columns import ORIGINS, SPLITS, CorpusInfo
from gsx.errors import StageError, UsageError
from gsx.ragged import Ragged, pointers
from gsx.seeds import rng
from gsx.stages.augmenters.changer import described
from gsx.stages.augmenters.mask_feature import mask_rows
from gsx.stages.beside import next_id
from gsx.stages.kernels.rows import feature_columns, features_of
from gsx.stages.shards import Facts, Read, ShardPlan
from gsx.stages.splicing.columns import fill, same_text
from gsx.storage.carry import carry_corpus
from gsx.storage.corpus import Corpus
from gsx.storage.corpus_writer import Shard, finish_corpus, write_shard
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact
from gsx.table import GraphTable, Values, concat

if TYPE_CHECKING:
    from gsx.stages.augment import AugmentConfig

SPLIT, ORIGIN = "all", "maskfeature"
SHARD_NODES = 1_000_000
"""Nodes of one shard, about: as many replicas go into one."""


class Masking:
    """Makes replicas of graphs of labelled nodes."""

    def __init__(self, config: AugmentConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._corpus = config, Corpus(inputs["corpus"])
        check_nodes(config, self._corpus.info)
        self._info = described(self._corpus.info, "MaskFeature")
        table = self._corpus.table()
        self._source = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
        split = self._source.dense("node", "node_split")
        self._rows = np.flatnonzero(split == SPLITS.index("train"))
        if not len(self._rows):
            raise StageError(f"{self._info.name} has no `train` nodes whose features to mask.")
        self._first_id = next_id(self._corpus)
        self._planned = self._plan()

    def _plan(self) -> list[Shard]:
        """Cut the replicas into shards that follow those of the corpus."""
        graphs, replicas = len(self._source), self._config.replicas or 1
        each = max(min(SHARD_NODES // max(self._source.total_nodes, 1), replicas), 1)
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
                about=f"masked graphs {shard.start} to {shard.stop - 1}, seed {self._config.seed}",
            )
            for shard in self._planned
        ]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one of them, unless it is there."""
        shard, graphs = self._planned[number], len(self._source)
        same: list[int] = []

        def make() -> GraphTable:
            numbers = range(shard.start // graphs, shard.stop // graphs)
            found = [self._replica(each) for each in numbers]
            same.extend(count for _, count in found)
            return concat([table for table, _ in found])

        return write_shard(
            draft,
            shard,
            self._info,
            make,
            self._config.formats,
            lambda _: {"augmented": {"unchanged": sum(same)}},
        )

    def _replica(self, number: int) -> tuple[GraphTable, int]:
        """Make replica ``number`` of all graphs, and count training nodes that are as before."""
        config, source = self._config, self._source
        name = ("augment", config.method, "replica", number)
        features = features_of(source, self._info)
        masked = mask_rows(
            features,
            self._rows,
            config.rate or 0.0,
            config.masked or "columns",
            rng(config.seed, *name),
        )
        domain = source.dense("node", "node_domain_id").copy()
        domain[self._rows] = -1
        plain = source.with_columns(node={**feature_columns(masked), "node_domain_id": domain})
        table = GraphTable(
            node_ptr=plain.node_ptr,
            edge_ptr=np.zeros_like(plain.edge_ptr),
            graph=self._graph_columns(number, "/".join(map(str, name))),
            node=plain.node,
            edge={key: plain.dense("edge", key)[:0] for key in plain.edge},
        )
        changed = (features != masked)[self._rows].sum(axis=1)
        return fill(table, self._info), int((np.asarray(changed) == 0).sum())

    def _graph_columns(self, number: int, name: str) -> dict[str, Values]:
        count = len(self._source)
        none = pointers(np.zeros(count))
        parents = self._source.dense("graph", "graph_id").astype(np.int64)
        return {
            "graph_id": self._first_id + number * count + np.arange(count, dtype=np.int64),
            "split": np.full(count, SPLITS.index(SPLIT), dtype=np.int8),
            "env_id": np.full(count, -1, dtype=np.int32),
            "domain_id": np.full(count, -1, dtype=np.int32),
            "origin": np.full(count, ORIGINS.index(ORIGIN), dtype=np.int8),
            "provenance.parents": Ragged(np.arange(count + 1), parents),
            "provenance.node_slot": Ragged(none, np.zeros(0, dtype=np.int16)),
            "provenance.node_number": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.bridges": Ragged(none, np.zeros(0, dtype=np.int32)),
            "provenance.lambda": np.full(count, np.nan, dtype=np.float32),
            "provenance.partner": np.full(count, -1, dtype=np.int64),
            "provenance.stream": same_text(name, count),
        }

    def finish(self, draft: Draft, facts: Sequence[Facts], _: Read) -> Outcome:
        """Carry the source graphs, and sum up what was masked; refuse when nothing was."""
        config = self._config
        carried = carry_corpus(draft, self._corpus, len(self._planned), config.formats, SPLIT)
        unchanged = sum(each["augmented"]["unchanged"] for each in facts)
        nodes = (config.replicas or 1) * len(self._rows)
        if unchanged == nodes:
            raise StageError(
                f"{config.method} changed nothing: all training nodes of {self._info.name} came "
                "out as they were. Raise the rate."
            )
        quality = {
            "method": config.method,
            "replicas": config.replicas,
            "nodes": nodes,
            "unchanged": unchanged,
        }
        outcome = finish_corpus(
            draft, self._info, [*carried, *facts], {"quality": {"augment": quality}}
        )
        return Outcome(counts=outcome.counts, warnings=outcome.warnings, summary=outcome.summary)


def check_nodes(config: AugmentConfig, info: CorpusInfo) -> None:
    """Refuse augmenters and options that mean nothing where nodes have labels."""
    if config.method != "mask-feature":
        raise UsageError(
            f"{config.method} is graph-level only, and {info.name} labels nodes: replicas of its "
            "graph share one structure. `gsx augment` takes mask-feature there."
        )
    if config.augmented_only:
        raise UsageError(
            "replicas have the structure of their source graph, so it cannot be left out; leave "
            f"`--augmented-only` away and train with `--origin {ORIGIN}`"
        )
    if config.count is not None or config.ratio not in (None, 1.0):
        raise UsageError(f"{info.name} labels nodes: say how often with `--replicas`")
