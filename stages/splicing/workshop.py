"""The workshop of splicing: source and pieces are read once, then any shard can be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load

from gsx.stages.kernels.wl import wl_hashes
from gsx.stages.nets.descent import one_thread
from gsx.stages.shards import Facts, Read, ShardPlan
from gsx.stages.splicing import inputs as given
from gsx.stages.splicing.build import (
    carry_source,
    count_of,
    hashes_of,
    make_splicer,
    shard_graphs_of,
    warnings_of,
    write_spliced,
)
from gsx.stages.splicing.plan import (
    augmented_info,
    environment_of,
    new_environments,
    plan_augmented,
)
from gsx.stages.splicing.quality import option_quality
from gsx.stages.splicing.splicer import Option, Splicer
from gsx.storage.corpus_writer import finish_corpus
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact

if TYPE_CHECKING:
    from gsx.stages.generate import GenerateConfig


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
        self._planned = plan_augmented(
            {option: count_of(config, len(train)) for option in config.enabled},
            shard_graphs_of(config, train),
            sum(shard.split == "train" for shard in carried),
            self._source.next_id,
        )
        self._splicer: tuple[Option, Splicer] | None = None

    @property
    def plans(self) -> list[ShardPlan]:
        """All augmented shards, option after option."""
        return [
            ShardPlan(
                units=(*(plan.shard.path(form) for form in self._config.formats), hashes_of(plan)),
                graphs=plan.stop - plan.start,
                about=(
                    f"option {plan.option}, graphs {plan.start} to {plan.stop - 1}, "
                    f"seed {self._config.seed}"
                ),
            )
            for plan in self._planned
        ]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one shard of augmented graphs."""
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
        carried = carry_source(self._config, draft, self._source.corpus, len(self._planned))
        train_hashes = wl_hashes(self._source.train)
        quality: dict[str, Any] = {}
        warnings: list[str] = []
        for option in self._config.enabled:
            rows = [n for n, plan in enumerate(self._planned) if plan.option == option]
            hashes = [load(read(hashes_of(self._planned[row])))["wl"] for row in rows]
            parts = [facts[row]["splice"] for row in rows]
            summed = option_quality(parts, np.concatenate(hashes), train_hashes, self._held_out)
            quality[f"option_{option}"] = summed
            warnings += warnings_of(option, summed, self._config)
        nodes = self._source.train.num_nodes
        quality["source"] = {
            "graphs": len(nodes),
            "min_nodes": int(nodes.min()),
            "mean_nodes": round(float(nodes.mean()), 3),
            "max_nodes": int(nodes.max()),
            **self._source.left_out,
        }
        outcome = finish_corpus(draft, self._info, [*carried, *facts], {"quality": quality})
        return Outcome(
            counts=outcome.counts,
            warnings=(*warnings, *(() if self._config.augmented_only else outcome.warnings)),
            summary=outcome.summary,
        )
