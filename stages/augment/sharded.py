"""The workshop of augmenters: training graphs are read once, then any shard can be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.errors import StageError
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augment.g_mixup import Mixer
from gsx.stages.augment.perturbation import KEPT, Changer
from gsx.stages.augment.rejection_sampling import BLOCK_GRAPHS, Augmenter, Block, make_block
from gsx.stages.augmented.cycle import Turns
from gsx.stages.augmented.rejection import held_out_hashes, next_id, repeated
from gsx.stages.chem.features import molecular
from gsx.stages.graphs.wl_hash import Hashes, wl_hashes
from gsx.stages.sharded_build import (
    GRAPH_NODES,
    Facts,
    Read,
    ShardPlan,
    hashes_path,
    shard_nodes,
    write_hashes,
)
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard, finish_corpus, write_shard
from gsx.storage.corpora.link_shards import carry_corpus
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.augment.stage import AugmentConfig

BLOCK_NODES = 1_000_000
"""Nodes above which a block holds fewer graphs."""


class Augmenting:
    """Makes shards of new graphs beside those of a corpus."""

    def __init__(self, config: AugmentConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config = config
        self._corpus = corpus = Corpus(inputs["corpus"])
        check_graphs(config, corpus.info)
        self._train = _training_graphs(corpus)
        self._augmenter = _augmenter_of(config, corpus.info, self._train)
        self._held_out = held_out_hashes(corpus)
        count = config.count or max(round(len(self._train) * (config.ratio or 1.0)), 1)
        self._items = self._items_of(count)
        nodes = max(float(self._train.num_nodes.mean()), 1.0)
        most = min(BLOCK_GRAPHS, config.shard_graphs)
        self._block = int(np.clip(BLOCK_NODES / nodes, 1, most))
        most_nodes = shard_nodes(GRAPH_NODES, self._train)
        wanted = min(config.shard_graphs, int(most_nodes / nodes))
        carried = [] if config.augmented_only else corpus.shards
        self._first_id = next_id(corpus)
        self._planned = _plan(
            count,
            max(wanted // self._block, 1) * self._block,
            sum(shard.split == "train" for shard in carried),
        )

    def _items_of(self, count: int) -> Turns:
        """Return what new graphs are made of, in turn; the last time some graphs at random."""
        if isinstance(self._augmenter, Mixer):
            pairs = np.arange(len(self._augmenter.pairs))
            return Turns(pairs, count, pairs[: count % len(pairs)])
        there = np.flatnonzero(self._train.num_nodes > 0)
        if not len(there):
            raise StageError(f"the training graphs of {self._corpus.info.name} have no nodes.")
        stream = rng(self._config.seed, "augment", self._config.method, "rows")
        return Turns.of(there, count, stream)

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of new graphs."""
        config = self._config
        return [
            ShardPlan(
                units=(*map(plan.path, config.formats), hashes_path(plan)),
                graphs=plan.stop - plan.start,
                about=f"{config.method} {plan.start} to {plan.stop - 1}, seed {config.seed}",
            )
            for plan in self._planned
        ]

    def make(self, number: int, draft: Draft) -> Facts:
        """Write one of them and the hashes of its graphs, unless they are there."""
        plan, formats = self._planned[number], self._config.formats
        name = hashes_path(plan)
        hashes: list[Hashes] = []
        counts: Counter[str] = Counter()

        def graphs() -> Iterator[GraphTable]:
            for table, block in self._blocks(plan):
                hashes.append(block.hashes)
                counts.update(block.counts)
                yield table

        def more() -> dict[str, Any]:
            write_hashes(draft, name, hashes)
            return {"augmented": dict(counts)}

        if draft.finished(name) is None:
            for form in formats:
                draft.forget(plan.path(form))
        return write_shard(draft, plan, self._augmenter.info, graphs, formats, more)

    def _blocks(self, plan: Shard) -> Iterator[tuple[GraphTable, Block]]:
        method = self._config.method
        for start in range(plan.start, plan.stop, self._block):
            items = self._items[start : min(start + self._block, plan.stop)]
            seed = self._config.seed
            block = make_block(
                self._augmenter, items, self._held_out, seed, "augment", method, start
            )
            ids = self._first_id + start + np.arange(len(items), dtype=np.int64)
            yield block.table.with_columns(graph={"graph_id": ids}), block

    def finish(self, draft: Draft, facts: Sequence[Facts], read: Read) -> Outcome:
        """Carry the source shards, and sum up what was made."""
        config, carried = self._config, []
        if not config.augmented_only:
            carried = carry_corpus(draft, self._corpus, len(self._planned), config.formats)
        quality = {"augment": self._sum_up(facts, draft, read)}
        outcome = finish_corpus(
            draft, self._augmenter.info, [*carried, *facts], {"quality": quality}
        )
        told = () if config.augmented_only else outcome.warnings
        return Outcome(
            counts=outcome.counts, warnings=(*self._warnings(), *told), summary=outcome.summary
        )

    def _sum_up(self, facts: Sequence[Facts], draft: Draft, read: Read) -> dict[str, Any]:
        """Return what new graphs are like beside the source; refuse when nothing was changed."""
        total: Counter[str] = Counter()
        for each in facts:
            total.update(each["augmented"])
        if total["unchanged"] == total["graphs"]:
            raise StageError(
                f"{self._config.method} changed nothing: all {total['graphs']} graphs of "
                f"{self._corpus.info.name} came out as they were. Raise the rate, or use another "
                "augmenter."
            )
        train = wl_hashes(self._train)
        held_out = np.setdiff1d(self._held_out, train)
        quality = {
            "method": self._config.method,
            "graphs": total["graphs"],
            **repeated(self._planned, read, draft, train, held_out),
            "refused": {"held-out graph": total["held_out"]} if total["held_out"] else {},
        }
        if isinstance(self._augmenter, Mixer):
            return quality | _mixing(self._augmenter)
        share = round(total["lost"] / max(total["whole"], 1), 6)
        return quality | {"unchanged": total["unchanged"], "lost": share}

    def _warnings(self) -> list[str]:
        if not molecular(self._corpus.info):
            return []
        return [
            f"graphs of {self._config.method} are no molecules: they have no SMILES, and features "
            "of atoms are not computed anew"
        ]


def _plan(count: int, shard_graphs: int, before: int) -> list[Shard]:
    """Cut new graphs, counted from 0, into shards that follow ``before`` others for training."""
    starts = range(0, count, shard_graphs)
    return [
        Shard("train", number, before + len(starts), start, min(start + shard_graphs, count))
        for number, start in enumerate(starts, start=before)
    ]


def check_graphs(config: AugmentConfig, info: CorpusInfo) -> None:
    """Refuse graphs that cannot be augmented this way."""
    if info.sparse:
        raise StageError(f"{info.name} has sparse node features, which augmenters do not carry.")
    mixable = info.task == "classification" or (info.task == "binary" and len(info.outputs) == 1)
    if config.method == "g-mixup" and not mixable:
        raise StageError(
            f"{info.name} is {info.task}; G-Mixup mixes classes, and needs one label of classes."
        )


def _augmenter_of(config: AugmentConfig, info: CorpusInfo, train: GraphTable) -> Augmenter:
    if config.method == "g-mixup":
        return Mixer.of(info, train, config.mix or (0.1, 0.2), config.pairs or 1, config.seed)
    return Changer.of(config.method, config.rate or 0.0, config.masked or "columns", info, train)


def _mixing(mixer: Mixer) -> dict[str, Any]:
    """Say which classes were mixed how."""
    names = mixer.info.outputs if mixer.info.task == "classification" else ("no", "yes")
    return {
        "nodes": mixer.classes.size,
        "classes": {
            names[each]: {"graphs": int(count), "density": round(float(graphon.mean()), 6)}
            for each, (count, graphon) in enumerate(
                zip(mixer.classes.graphs, mixer.classes.graphons, strict=True)
            )
        },
        "pairs": [
            {"classes": [names[a], names[b]], "lambda": round(float(weight), 6)}
            for (a, b), weight in zip(mixer.pairs, mixer.weight, strict=True)
        ],
    }


def _training_graphs(corpus: Corpus) -> GraphTable:
    info = corpus.info
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs to augment.")
    names = [
        column.name
        for column in info.columns
        if column.axis != "graph" or column.name in ("graph_id", *KEPT)
    ]
    return corpus.table(split="train", columns=names)
