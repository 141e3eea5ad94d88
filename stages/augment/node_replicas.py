"""MaskFeature and DropEdge of node-labelled graphs: replicas with masked features or fewer edges.

Node i of a replica is node i of its source graph, so methods that remove nodes are not available. A
replica with masked features stores no edges and shares those of its source; a replica with dropped
edges stores the remaining ones (docs/adr/0007). Features are masked in training nodes only;
those of held-out nodes are bit-identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augment.config import AugmentConfig
from gsx.stages.augment.drop_edge import PAIR, drop_edges, number_node_pairs
from gsx.stages.augment.mask_feature import mask_rows
from gsx.stages.augment.perturbation import DISPLAY_NAMES, augmented_info, origin_of
from gsx.stages.augmented.derived_columns import fill_missing_columns
from gsx.stages.augmented.replicas import (
    finish_replicas,
    plan_replicas,
    replica_columns,
    without_edges,
    write_replica_shard,
)
from gsx.stages.augmented.source_graphs import next_graph_id, source_graphs, training_nodes
from gsx.stages.graphs.node_features import feature_columns, node_features
from gsx.stages.graphs.statistics import degrees
from gsx.stages.sharded_build import ReadFile, ShardPlan, ShardStats
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

DEFAULT_REPLICAS = 4


class ReplicaBuild:
    """Builds shards of replicas with masked features or dropped edges."""

    def __init__(self, config: AugmentConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._corpus = config, Corpus(inputs["corpus"])
        check_config(config, self._corpus.info)
        assert config.method in ("drop-edge", "mask-feature")
        self._method: Literal["drop-edge", "mask-feature"] = config.method
        self._replicas = config.replicas or DEFAULT_REPLICAS
        self._info = augmented_info(self._corpus.info, DISPLAY_NAMES[self._method])
        self._source = source_graphs(self._corpus)
        self._train = training_nodes(self._source)
        if not len(self._train):
            raise StageError(
                f"{self._info.name} has no `train` nodes to augment. Prepare it with a `train` "
                "split."
            )
        if self._method == "drop-edge":
            self._source = number_node_pairs(self._source)
        self._first_id = next_graph_id(self._corpus)
        self._planned = plan_replicas(self._corpus, self._source, self._replicas)

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of replicas."""
        return [
            ShardPlan(
                units=tuple(map(shard.path, self._config.formats)),
                graphs=shard.stop - shard.start,
                description=(
                    f"{self._method} {shard.start} to {shard.stop - 1}, seed {self._config.seed}"
                ),
            )
            for shard in self._planned
        ]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write one shard, unless it exists."""
        return write_replica_shard(
            draft,
            self._planned[number],
            self._info,
            len(self._source),
            self._replica,
            self._config.formats,
            lambda unchanged: {"augmented": {"unchanged": unchanged}},
        )

    def _replica(self, number: int) -> tuple[GraphTable, int]:
        """Build replica ``number`` of all graphs; also return how many nodes are unchanged.

        Only training nodes are counted.
        """
        name = ("augment", self._method, "replica", number)
        perturb = self._drop_edges if self._method == "drop-edge" else self._mask_features
        table, unchanged = perturb(rng(self._config.seed, *name))
        domain = table.dense("node", "node_domain_id").copy()
        domain[self._train] = -1
        columns = replica_columns(
            self._source,
            number,
            first_id=self._first_id,
            origin=origin_of(self._method),
            stream="/".join(map(str, name)),
        )
        table = table.with_columns(graph=columns, node={"node_domain_id": domain})
        return fill_missing_columns(table, self._info), unchanged

    def _drop_edges(self, stream: np.random.Generator) -> tuple[GraphTable, int]:
        """Drop edges of all nodes; a training node is unchanged if it keeps all its edges."""
        table = drop_edges(self._source, self._config.rate or 0.0, stream)
        dropped = (degrees(self._source) - degrees(table))[self._train]
        edge = {name: values for name, values in table.edge.items() if name != PAIR}
        plain = GraphTable(table.node_ptr, table.edge_ptr, {}, table.node, edge)
        return plain, int((dropped == 0).sum())

    def _mask_features(self, stream: np.random.Generator) -> tuple[GraphTable, int]:
        """Mask features of training nodes; edges are shared with the source graph."""
        config, source = self._config, self._source
        features = node_features(source, self._info)
        rate, mode = config.rate or 0.0, config.masked or "columns"
        masked = mask_rows(features, self._train, rate, mode, stream)
        table = without_edges(source, {**source.node, **feature_columns(masked)})
        changed = (features != masked)[self._train].sum(axis=1)
        return table, int((np.asarray(changed) == 0).sum())

    def finish(self, draft: Draft, stats: Sequence[ShardStats], _: ReadFile) -> StageResult:
        """Link the source shards and summarize the replicas; raise if all nodes are unchanged."""
        config = self._config
        unchanged = sum(shard_stats["augmented"]["unchanged"] for shard_stats in stats)
        nodes = self._replicas * len(self._train)
        if unchanged == nodes:
            raise StageError(
                f"{config.method} changed nothing: all training nodes of {self._info.name} are "
                "unchanged. Raise the rate."
            )
        quality = {
            "method": config.method,
            "replicas": self._replicas,
            "nodes": nodes,
            "unchanged": unchanged,
        }
        return finish_replicas(
            draft, self._corpus, self._info, stats, config.formats, {"augment": quality}
        )


def check_config(config: AugmentConfig, info: CorpusInfo) -> None:
    """Raise if a method or an option does not apply to labelled nodes."""
    if config.method not in ("drop-edge", "mask-feature"):
        raise UsageError(
            f"{config.method} needs labelled graphs; {info.name} has node labels, and a replica "
            "must keep all nodes of its graph. Use drop-edge or mask-feature."
        )
    if config.augmented_only:
        raise UsageError(
            "models are evaluated on nodes of the source graph, so the corpus must hold it. Leave "
            f"`--augmented-only` out, and train with `--origin {origin_of(config.method)}`."
        )
    if config.count is not None or config.ratio not in (None, 1.0):
        raise UsageError(
            f"{info.name} has node labels: set the number of replicas with `--replicas`"
        )
