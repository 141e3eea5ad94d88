"""Sharded build of spliced graphs together with feature extrapolation.

Features of source graphs and of spliced graphs are extrapolated. A spliced shard and its
extrapolated counterpart are one unit of work, because the second is read from the first. Shards of
extrapolated source graphs are separate units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsx.schema import CorpusInfo
from gsx.stages.augmented.rejection import duplicate_counts
from gsx.stages.augmented.shards import finish_augmented
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.featx.build import (
    Extrapolation,
    extrapolation_quality,
    extrapolation_warnings,
    plan_extrapolation,
    write_extrapolated_shard,
)
from gsx.stages.generate.featx.parameters import range_policy_warnings
from gsx.stages.generate.featx.plan import BaseShard, ExtrapolatedShard, extrapolated_info
from gsx.stages.generate.featx.sharded import extrapolated_shard_plan
from gsx.stages.generate.splice.plan import ORIGIN_OF_OPTION
from gsx.stages.generate.splice.sharded import SpliceBuild
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.sharded_build import ReadFile, ShardPlan, ShardStats
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact


class CombinedBuild:
    """Builds shards of spliced graphs and of graphs with extrapolated features."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config, self._mask = config, inputs["mask"]
        self._splice = SpliceBuild(config, inputs)
        interpolate = config.featx_direction == "interpolate"
        info = extrapolated_info(self._splice.info, interpolate=interpolate)
        self._featx = self._plan_featx(inputs, info)
        self._splice.extend(info, total_shards=self._featx.planned[-1].shard.total)

    def _plan_featx(self, inputs: Mapping[str, Artifact], info: CorpusInfo) -> Extrapolation:
        """Plan the extrapolation of source and spliced graphs; shard totals count both kinds."""
        spliced = self._splice.planned
        last = spliced[-1]
        extrapolation = plan_extrapolation(
            self._config,
            inputs,
            info,
            self._splice.held_out,
            spliced=[
                BaseShard(plan.shard, ORIGIN_OF_OPTION[plan.option], plan.start, plan.stop)
                for plan in spliced
            ],
            before=spliced[0].shard.number + len(spliced),
            first_id=last.first_id + last.stop - last.start,
        )
        total = extrapolation.planned[-1].shard.total
        planned = [
            replace(plan, base_shard=plan.base_shard and replace(plan.base_shard, total=total))
            for plan in extrapolation.planned
        ]
        return replace(extrapolation, planned=planned)

    @property
    def _of_spliced(self) -> list[ExtrapolatedShard]:
        """Extrapolated counterparts of all spliced shards, in the same order."""
        return [plan for plan in self._featx.planned if plan.base_shard is not None]

    @property
    def _of_source(self) -> list[ExtrapolatedShard]:
        """Shards of extrapolated source graphs."""
        return [plan for plan in self._featx.planned if plan.base_shard is None]

    @property
    def plans(self) -> list[ShardPlan]:
        """Spliced shards with their extrapolated counterparts, then extrapolated source graphs."""
        plans = []
        for spliced, counterpart in zip(self._splice.plans, self._of_spliced, strict=True):
            extrapolated = extrapolated_shard_plan(self._config, counterpart)
            plans.append(
                replace(
                    spliced,
                    units=spliced.units + extrapolated.units,
                    graphs=spliced.graphs + extrapolated.graphs,
                )
            )
        return plans + [extrapolated_shard_plan(self._config, plan) for plan in self._of_source]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write a spliced shard and its counterpart, or a shard of extrapolated source graphs."""
        spliced = len(self._splice.planned)
        if number >= spliced:
            plan = self._of_source[number - spliced]
            return write_extrapolated_shard(self._featx, plan, draft)
        spliced_stats = self._splice.build_shard(number, draft)
        counterpart = self._of_spliced[number]
        return {
            "spliced": spliced_stats,
            "extrapolated": write_extrapolated_shard(self._featx, counterpart, draft),
        }

    def finish(self, draft: Draft, stats: Sequence[ShardStats], read: ReadFile) -> StageResult:
        """Link the source shards and summarize every option and the extrapolated graphs."""
        num_spliced = len(self._splice.planned)
        pairs, of_source = stats[:num_spliced], stats[num_spliced:]
        spliced = [pair["spliced"] for pair in pairs]
        extrapolated = [*of_source, *(pair["extrapolated"] for pair in pairs)]
        linked = self._splice.link_source(draft, len(spliced) + len(extrapolated))
        train_hashes = wl_hashes(self._splice.train)
        quality, warnings = self._splice.options_quality(spliced, draft, read, train_hashes)
        shards = [plan.shard for plan in self._featx.planned]
        duplicates = duplicate_counts(shards, read, draft, train_hashes, self._splice.held_out)
        quality["featx"] = extrapolation_quality(self._featx, extrapolated, duplicates)
        warnings += range_policy_warnings(self._config, self._mask)
        warnings += extrapolation_warnings(quality["featx"])
        quality["source"] = self._splice.source_quality()
        return finish_augmented(
            draft,
            self._featx.info,
            [*linked, *spliced, *extrapolated],
            quality,
            warnings,
            augmented_only=self._config.augmented_only,
        )
