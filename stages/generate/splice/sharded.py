"""The workshop of splicing: source and pieces are read once, then any shard can be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gsx.stages.augmented.rejection import repeated
from gsx.stages.generate.featx.build import (
    Extrapolation,
    plan_extrapolation,
    sum_up,
    write_moved,
)
from gsx.stages.generate.featx.build import warnings_of as moved_warnings
from gsx.stages.generate.featx.plan import MovedShard, Spliced, with_environment
from gsx.stages.generate.featx.sharded import moved_plan
from gsx.stages.generate.splice import load_inputs as given
from gsx.stages.generate.splice.build import (
    carry_source,
    count_of,
    make_splicer,
    shard_graphs_of,
    warnings_of,
    write_spliced,
)
from gsx.stages.generate.splice.metrics import option_quality
from gsx.stages.generate.splice.plan import (
    augmented_info,
    environment_of,
    new_environments,
    plan_augmented,
)
from gsx.stages.generate.splice.splicer import ORIGIN_OF, Option, Splicer
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.sharded_build import Facts, Read, ShardPlan, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import finish_corpus

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig


class Splicing:
    """Makes the augmented shards of a corpus."""

    def __init__(self, config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
        with one_thread():
            self._source = given.read(config, inputs)
            self._held_out = given.held_out_hashes(self._source.corpus)
        self._config = config
        corpus, train = self._source.corpus, self._source.train
        self._environments = new_environments(corpus.info, config.enabled)
        self._info = augmented_info(corpus.info, self._environments)
        carried = [] if config.augmented_only else corpus.shards
        before = sum(shard.split == "train" for shard in carried)
        self._planned = plan_augmented(
            {option: count_of(config, len(train)) for option in config.enabled},
            shard_graphs_of(config, train),
            before,
            self._source.next_id,
        )
        self._moved: Extrapolation | None = None
        if config.featx:
            towards = config.featx_direction == "interpolate"
            self._info = with_environment(self._info, towards=towards)
            self._moved = self._plan_featx(inputs, before)
        self._splicer: tuple[Option, Splicer] | None = None

    def _plan_featx(self, inputs: Mapping[str, Artifact], before: int) -> Extrapolation:
        """Plan FeatX on source and spliced graphs; names of all shards count those of both."""
        last = self._planned[-1]
        moved = plan_extrapolation(
            self._config,
            inputs,
            self._info,
            self._held_out,
            spliced=[Spliced(p.shard, ORIGIN_OF[p.option], p.start, p.stop) for p in self._planned],
            before=before + len(self._planned),
            first_id=last.first_id + last.stop - last.start,
        )
        total = moved.planned[-1].shard.total
        self._planned = [replace(p, shard=replace(p.shard, total=total)) for p in self._planned]
        planned = [
            replace(p, parent=None if p.parent is None else replace(p.parent, total=total))
            for p in moved.planned
        ]
        return replace(moved, planned=planned)

    @property
    def _twins(self) -> list[MovedShard]:
        """What FeatX makes of every spliced shard, in their order; none without FeatX."""
        return [p for p in self._moved.planned if p.parent is not None] if self._moved else []

    @property
    def _alone(self) -> list[MovedShard]:
        """What FeatX makes of source graphs."""
        return [p for p in self._moved.planned if p.parent is None] if self._moved else []

    @property
    def plans(self) -> list[ShardPlan]:
        """All augmented shards, option after option, each with what FeatX makes of it."""
        config, found = self._config, []
        for plan in self._planned:
            files = (plan.shard.path(form) for form in config.formats)
            about = f"option {plan.option}, graphs {plan.start} to {plan.stop - 1}"
            found.append(
                ShardPlan(
                    units=(*files, hashes_path(plan.shard)),
                    graphs=plan.stop - plan.start,
                    about=f"{about}, seed {config.seed}",
                )
            )
        for number, twin in enumerate(self._twins):
            more = moved_plan(config, twin)
            found[number] = replace(
                found[number],
                units=found[number].units + more.units,
                graphs=found[number].graphs + more.graphs,
            )
        return found + [moved_plan(config, plan) for plan in self._alone]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one shard of augmented graphs, and the shard of those graphs moved."""
        if self._moved is None:
            return self._splice(number, draft)
        if number >= len(self._planned):
            return write_moved(self._moved, self._alone[number - len(self._planned)], draft)
        facts = self._splice(number, draft)
        return {"spliced": facts, "moved": write_moved(self._moved, self._twins[number], draft)}

    def _splice(self, number: int, draft: Draft) -> Facts:
        plan = self._planned[number]
        env_id = environment_of(self._environments, plan.option)
        with one_thread():
            return write_spliced(
                self._config,
                draft,
                plan,
                self._info,
                lambda: self._splicer_of(plan.option),
                env_id,
                self._source,
            )

    def _splicer_of(self, option: Option) -> Splicer:
        """Return what makes graphs of an option; the pool of one option is kept, no more."""
        if self._splicer is None or self._splicer[0] != option:
            self._splicer = None
            made = make_splicer(self._config, self._source, self._info, option, self._held_out)
            self._splicer = option, made
        return self._splicer[1]

    def finish(self, draft: Draft, facts: Sequence[Facts], read: Read) -> Outcome:
        """Carry the source shards, and sum up what was made of each option."""
        self._splicer = None
        spliced, moved = self._parted(facts)
        carried = carry_source(self._config, draft, self._source.corpus, len(spliced) + len(moved))
        train_hashes = wl_hashes(self._source.train)
        quality: dict[str, Any] = {}
        warnings: list[str] = []
        for option in self._config.enabled:
            rows = [n for n, plan in enumerate(self._planned) if plan.option == option]
            shards = [self._planned[row].shard for row in rows]
            repeats = repeated(shards, read, draft, train_hashes, self._held_out)
            summed = option_quality([spliced[row]["splice"] for row in rows], repeats)
            quality[f"option_{option}"] = summed
            warnings += warnings_of(option, summed, self._config)
        if self._moved is not None:
            shards = [plan.shard for plan in self._moved.planned]
            repeats = repeated(shards, read, draft, train_hashes, self._held_out)
            quality["featx"] = sum_up(self._moved, moved, repeats)
            warnings += moved_warnings(quality["featx"])
        nodes = self._source.train.num_nodes
        quality["source"] = {
            "graphs": len(nodes),
            "min_nodes": int(nodes.min()),
            "mean_nodes": round(float(nodes.mean()), 3),
            "max_nodes": int(nodes.max()),
            **self._source.left_out,
        }
        outcome = finish_corpus(
            draft, self._info, [*carried, *spliced, *moved], {"quality": quality}
        )
        return Outcome(
            counts=outcome.counts,
            warnings=(*warnings, *(() if self._config.augmented_only else outcome.warnings)),
            summary=outcome.summary,
        )

    def _parted(self, facts: Sequence[Facts]) -> tuple[list[Facts], list[Facts]]:
        """Return the facts of spliced and of moved shards, each in the order of their names."""
        if self._moved is None:
            return list(facts), []
        both, alone = facts[: len(self._planned)], facts[len(self._planned) :]
        return [each["spliced"] for each in both], [*alone, *(each["moved"] for each in both)]
