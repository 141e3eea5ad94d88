"""Sharded builds of feature extrapolation without splicing, for labelled graphs and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsx.stages.augmented.rejection import duplicate_counts, held_out_hashes
from gsx.stages.augmented.replicas import finish_replicas, plan_replicas, write_replica_shard
from gsx.stages.augmented.shards import finish_augmented, link_source_shards, num_source_shards
from gsx.stages.augmented.source_graphs import next_graph_id
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.featx.build import (
    extrapolation_quality,
    extrapolation_warnings,
    plan_extrapolation,
    write_extrapolated_shard,
)
from gsx.stages.generate.featx.node_replicas import (
    check_config,
    load_node_extrapolator,
    replica_quality,
)
from gsx.stages.generate.featx.parameters import range_policy_warnings
from gsx.stages.generate.featx.plan import ExtrapolatedShard, extrapolated_info
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.sharded_build import ReadFile, ShardedBuild, ShardPlan, ShardStats, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus


def open_featx_build(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> ShardedBuild:
    """Return the build for a corpus of labelled graphs or of labelled nodes."""
    if Corpus(inputs["corpus"]).info.level == "node":
        return NodeReplicaBuild(config, inputs)
    return GraphExtrapolationBuild(config, inputs)


def extrapolated_shard_plan(config: GenerateConfig, plan: ExtrapolatedShard) -> ShardPlan:
    """Return the files and the description of a planned shard."""
    files = (plan.shard.path(form) for form in config.formats)
    return ShardPlan(
        units=(*files, hashes_path(plan.shard)),
        graphs=plan.stop - plan.start,
        description=f"FeatX of {plan.base} {plan.start} to {plan.stop - 1}, seed {config.seed}",
    )


class GraphExtrapolationBuild:
    """Builds shards of source graphs with extrapolated features."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._mask = config, inputs["mask"]
        self._corpus = corpus = Corpus(inputs["corpus"])
        interpolate = config.featx_direction == "interpolate"
        self._held_out = held_out_hashes(corpus)
        self._extrapolation = plan_extrapolation(
            config,
            inputs,
            extrapolated_info(corpus.info, interpolate=interpolate),
            self._held_out,
            spliced=(),
            before=num_source_shards(corpus, augmented_only=config.augmented_only),
            first_id=next_graph_id(corpus),
        )

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of extrapolated graphs."""
        return [extrapolated_shard_plan(self._config, p) for p in self._extrapolation.planned]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write one shard."""
        extrapolation = self._extrapolation
        return write_extrapolated_shard(extrapolation, extrapolation.planned[number], draft)

    def finish(self, draft: Draft, stats: Sequence[ShardStats], read: ReadFile) -> StageResult:
        """Link the source shards and summarize the extrapolated graphs."""
        config, extrapolation = self._config, self._extrapolation
        linked = link_source_shards(
            draft,
            self._corpus,
            len(extrapolation.planned),
            config.formats,
            augmented_only=config.augmented_only,
        )
        shards = [plan.shard for plan in extrapolation.planned]
        train_hashes = wl_hashes(extrapolation.train)
        duplicates = duplicate_counts(shards, read, draft, train_hashes, self._held_out)
        quality = extrapolation_quality(extrapolation, stats, duplicates)
        return finish_augmented(
            draft,
            extrapolation.info,
            [*linked, *stats],
            {"featx": quality},
            [
                *range_policy_warnings(config, self._mask),
                *extrapolation_warnings(quality),
            ],
            augmented_only=config.augmented_only,
        )


class NodeReplicaBuild:
    """Builds shards of replicas with extrapolated features, for labelled nodes."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._corpus = config, Corpus(inputs["corpus"])
        self._mask = inputs["mask"]
        check_config(config, self._corpus.info)
        self._extrapolator = load_node_extrapolator(config, inputs, self._corpus)
        self._planned = plan_replicas(self._corpus, self._extrapolator.source, config.replicas)

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of replicas."""
        graphs = len(self._extrapolator.source)
        return [
            ShardPlan(
                units=tuple(shard.path(form) for form in self._config.formats),
                graphs=shard.stop - shard.start,
                description=(
                    f"replicas {shard.start // graphs} to {shard.stop // graphs - 1}, "
                    f"seed {self._config.seed}"
                ),
            )
            for shard in self._planned
        ]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write one shard."""
        return write_replica_shard(
            draft,
            self._planned[number],
            self._extrapolator.info,
            len(self._extrapolator.source),
            self._extrapolator.replica,
            self._config.formats,
            lambda unchanged: {"unchanged": unchanged},
        )

    def finish(self, draft: Draft, stats: Sequence[ShardStats], _: ReadFile) -> StageResult:
        """Link the source shards and summarize the replicas."""
        quality = replica_quality(self._config, self._extrapolator, stats)
        return finish_replicas(
            draft,
            self._corpus,
            self._extrapolator.info,
            stats,
            self._config.formats,
            {"featx": quality},
            range_policy_warnings(self._config, self._mask),
        )
