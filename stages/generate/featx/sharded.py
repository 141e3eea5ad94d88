"""Workshops of FeatX alone: corpus and mask are read once, then any shard can be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gsx.stages.augmented.rejection import held_out_hashes, next_id, repeated
from gsx.stages.generate.featx import node_replicas as nodes
from gsx.stages.generate.featx.build import (
    plan_extrapolation,
    sum_up,
    warnings_of,
    write_moved,
)
from gsx.stages.generate.featx.plan import MovedShard, with_environment
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.sharded_build import Facts, Read, ShardPlan, Workshop, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import finish_corpus
from gsx.storage.corpora.link_shards import carry_corpus

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig


def open_workshop(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> Workshop:
    """Open what moves the features of labelled graphs, or of labelled nodes."""
    if Corpus(inputs["corpus"]).info.level == "node":
        return Replicating(config, inputs)
    return Extrapolating(config, inputs)


def moved_plan(config: GenerateConfig, plan: MovedShard) -> ShardPlan:
    """Say what a shard of moved graphs consists of."""
    files = (plan.shard.path(form) for form in config.formats)
    return ShardPlan(
        units=(*files, hashes_path(plan.shard)),
        graphs=plan.stop - plan.start,
        about=f"FeatX of {plan.base} {plan.start} to {plan.stop - 1}, seed {config.seed}",
    )


class Extrapolating:
    """Makes shards of source graphs whose features are moved."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config = config
        self._corpus = corpus = Corpus(inputs["corpus"])
        self._info = with_environment(corpus.info, towards=config.featx_direction == "interpolate")
        self._held_out = held_out_hashes(corpus)
        carried = [] if config.augmented_only else corpus.shards
        self._moved = plan_extrapolation(
            config,
            inputs,
            self._info,
            self._held_out,
            spliced=(),
            before=sum(shard.split == "train" for shard in carried),
            first_id=next_id(corpus),
        )

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of moved graphs."""
        return [moved_plan(self._config, plan) for plan in self._moved.planned]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one of them."""
        return write_moved(self._moved, self._moved.planned[number], draft)

    def finish(self, draft: Draft, facts: Sequence[Facts], read: Read) -> Outcome:
        """Carry the source shards, and sum up what was moved."""
        config, moved = self._config, self._moved
        carried = []
        if not config.augmented_only:
            carried = carry_corpus(draft, self._corpus, len(moved.planned), config.formats)
        shards = [plan.shard for plan in moved.planned]
        repeats = repeated(shards, read, draft, wl_hashes(moved.train), self._held_out)
        quality = sum_up(moved, facts, repeats)
        outcome = finish_corpus(
            draft, self._info, [*carried, *facts], {"quality": {"featx": quality}}
        )
        warnings = () if config.augmented_only else outcome.warnings
        return Outcome(
            counts=outcome.counts,
            warnings=(*warnings_of(quality), *warnings),
            summary=outcome.summary,
        )


class Replicating:
    """Makes replicas of graphs of labelled nodes."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._corpus = config, Corpus(inputs["corpus"])
        nodes.check_config(config, self._corpus.info)
        self._replication = nodes.replication_of(config, inputs, self._corpus)
        self._planned = nodes.plan_replicas(config, self._replication.source, self._corpus)

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of replicas."""
        graphs = len(self._replication.source)
        return [
            ShardPlan(
                units=tuple(shard.path(form) for form in self._config.formats),
                graphs=shard.stop - shard.start,
                about=(
                    f"replicas {shard.start // graphs} to {shard.stop // graphs - 1}, "
                    f"seed {self._config.seed}"
                ),
            )
            for shard in self._planned
        ]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one of them."""
        return nodes.write_replicas(self._config, self._replication, self._planned[number], draft)

    def finish(self, draft: Draft, facts: Sequence[Facts], _: Read) -> Outcome:
        """Carry the source graphs, and sum up what was moved."""
        carried = carry_corpus(
            draft, self._corpus, len(self._planned), self._config.formats, nodes.SPLIT
        )
        quality = nodes.sum_up(self._config, self._replication, facts)
        outcome = finish_corpus(
            draft, self._replication.info, [*carried, *facts], {"quality": {"featx": quality}}
        )
        return Outcome(counts=outcome.counts, warnings=outcome.warnings, summary=outcome.summary)
