"""Sharded build of spliced graphs: read the inputs once, then build any shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gsx.schema import CorpusInfo
from gsx.stages.augmented.check import Check, failed_check_warnings
from gsx.stages.augmented.label_checks import (
    causal_conflict_check,
    causal_prediction_check,
    label_conflict_check,
)
from gsx.stages.augmented.label_trends import trend_warnings
from gsx.stages.augmented.rejection import duplicate_counts, held_out_hashes
from gsx.stages.augmented.shards import (
    finish_augmented,
    link_source_shards,
    num_generated,
    num_source_shards,
)
from gsx.stages.generate.config import GenerateConfig, Option
from gsx.stages.generate.splice.build import (
    build_splicer,
    graphs_per_spliced_shard,
    splice_warnings,
    write_spliced_shard,
)
from gsx.stages.generate.splice.load_inputs import load_inputs
from gsx.stages.generate.splice.metrics import merge_sums, option_quality
from gsx.stages.generate.splice.plan import (
    SplicedShard,
    environment_id,
    plan_spliced_shards,
    spliced_environments,
    spliced_info,
)
from gsx.stages.generate.splice.splicer import Splicer
from gsx.stages.graphs.wl_hash import Hashes, labelled_hashes, wl_hashes
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.sharded_build import ReadFile, ShardPlan, ShardStats, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.summary import read_quality
from gsx.table import GraphTable


class SpliceBuild:
    """Builds shards of spliced graphs."""

    info: CorpusInfo
    """Description of the augmented corpus."""
    planned: list[SplicedShard]
    held_out: Hashes

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        with one_thread():
            self._inputs = load_inputs(config, inputs)
            self.held_out = held_out_hashes(self._inputs.corpus)
        self._config = config
        self._extractor = inputs.get("extractor")
        corpus = self._inputs.corpus
        self._environments = spliced_environments(corpus.info, config.enabled)
        self.info = spliced_info(corpus.info, self._environments)
        count = num_generated(config.count, config.ratio, len(self.train))
        self.planned = plan_spliced_shards(
            dict.fromkeys(config.enabled, count),
            graphs_per_spliced_shard(config, self.train),
            num_source_shards(corpus, augmented_only=config.augmented_only),
            self._inputs.next_id,
        )
        self._splicer: tuple[Option, Splicer] | None = None

    @property
    def train(self) -> GraphTable:
        """Training graphs of the source corpus, without graph columns."""
        return self._inputs.train

    def extend(self, info: CorpusInfo, total_shards: int) -> None:
        """Build the spliced shards of a corpus in which other generated shards follow them."""
        self.info = info
        self.planned = [
            replace(plan, shard=replace(plan.shard, total=total_shards)) for plan in self.planned
        ]

    @property
    def plans(self) -> list[ShardPlan]:
        """All spliced shards, option by option."""
        config = self._config
        return [
            ShardPlan(
                units=(
                    *(plan.shard.path(form) for form in config.formats),
                    hashes_path(plan.shard),
                ),
                graphs=plan.stop - plan.start,
                description=(
                    f"option {plan.option}, graphs {plan.start} to {plan.stop - 1}, "
                    f"seed {config.seed}"
                ),
            )
            for plan in self.planned
        ]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write one shard of spliced graphs."""
        plan = self.planned[number]
        env_id = environment_id(self._environments, plan.option)
        with one_thread():
            return write_spliced_shard(
                self._config,
                draft,
                plan,
                self.info,
                lambda: self._splicer_of(plan.option),
                env_id,
                self._inputs,
            )

    def _splicer_of(self, option: Option) -> Splicer:
        """Return the splicer of an option; only one is kept in memory."""
        if self._splicer is None or self._splicer[0] != option:
            # Option 1 splices causal subgraphs only, which option 2 needs too.
            is_causal = self._splicer is not None and self._splicer[0] == 1 and option == 2
            causal = self._splicer[1].pool if self._splicer is not None and is_causal else None
            self._splicer = None
            splicer = build_splicer(
                self._config, self._inputs, self.info, option, self.held_out, causal
            )
            self._splicer = option, splicer
        return self._splicer[1]

    def finish(self, draft: Draft, stats: Sequence[ShardStats], read: ReadFile) -> StageResult:
        """Link the source shards and summarize every option."""
        linked = self.link_source(draft, len(stats))
        quality, warnings = self.options_quality(stats, draft, read, wl_hashes(self.train))
        quality["source"] = self.source_quality()
        return finish_augmented(
            draft,
            self.info,
            [*linked, *stats],
            quality,
            warnings,
            augmented_only=self._config.augmented_only,
        )

    def link_source(self, draft: Draft, new_shards: int) -> list[Mapping[str, Any]]:
        """Link the source shards, followed by ``new_shards`` shards, and return their statistics.

        Frees the component pool: all spliced shards have been built by now.
        """
        self._splicer = None
        config = self._config
        return link_source_shards(
            draft,
            self._inputs.corpus,
            new_shards,
            config.formats,
            augmented_only=config.augmented_only,
        )

    def options_quality(
        self, stats: Sequence[ShardStats], draft: Draft, read: ReadFile, train_hashes: Hashes
    ) -> tuple[dict[str, Any], list[str]]:
        """Return quality metrics of every option, and warnings; ``stats`` are per spliced shard."""
        quality: dict[str, Any] = {}
        warnings: list[str] = []
        train_labelled = labelled_hashes(train_hashes, self._inputs.y)
        for option in self._config.enabled:
            rows = [row for row, plan in enumerate(self.planned) if plan.option == option]
            shards = [self.planned[row].shard for row in rows]
            duplicates = duplicate_counts(
                shards, read, draft, train_hashes, self.held_out, train_labelled
            )
            metrics = option_quality([stats[row]["splice"] for row in rows], duplicates)
            quality[f"option_{option}"] = metrics
            warnings += splice_warnings(option, metrics, self._config)
            warnings += trend_warnings(
                option,
                merge_sums([stats[row]["splice"] for row in rows]),
                self.train.num_nodes,
                self._inputs.y,
                self.info,
                self._config.labels,
            )
        return quality, warnings + failed_check_warnings(self._checks(quality))

    def _checks(self, quality: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
        """Yield the checks of labels that the report shows, too."""
        task = self.info.task
        if self._extractor is not None:
            yield from causal_prediction_check(read_quality(self._extractor.manifest))
        for row in quality.values():
            yield from causal_conflict_check(row.get("causal_subgraphs"), task)
        yield from label_conflict_check(quality, task)

    def source_quality(self) -> dict[str, Any]:
        """Return counts and sizes of the training graphs."""
        nodes = self.train.num_nodes
        return {
            "graphs": len(nodes),
            "min_nodes": int(nodes.min()),
            "mean_nodes": round(float(nodes.mean()), 3),
            "max_nodes": int(nodes.max()),
            **self._inputs.left_out,
        }
